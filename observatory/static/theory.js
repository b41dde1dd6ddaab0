// A slider and the number field beside it move together. The field alone belongs to the form.
"use strict";

const STEPS = 1000;

function valueAt(slider) {
  const [low, high] = [Number(slider.dataset.low), Number(slider.dataset.high)];
  const share = Number(slider.value) / STEPS;
  if (share === 0 || share === 1) return share ? high : low;
  const scale = slider.dataset.scale;
  const value = scale === "log" ? low * (high / low) ** share : low + (high - low) * (scale === "power" ? share ** 4 : share);
  return "whole" in slider.dataset ? Math.round(value) : Number(value.toPrecision(3));
}

function placeOf(slider, text) {
  const [low, high] = [Number(slider.dataset.low), Number(slider.dataset.high)];
  const value = Math.min(Math.max(Number(text), low), high);
  if (slider.dataset.scale === "log") return (STEPS * Math.log(value / low)) / Math.log(high / low);
  const share = (value - low) / (high - low);
  return STEPS * (slider.dataset.scale === "power" ? share ** 0.25 : share);
}

function onInput(event) {
  const slider = event.target;
  if (slider.matches("input[type=range][data-for]")) {
    document.getElementById(slider.dataset.for).value = valueAt(slider);
    return;
  }
  const follower = document.querySelector(`input[type=range][data-for="${CSS.escape(event.target.id)}"]`);
  const text = event.target.value.trim();
  if (follower && text !== "" && Number.isFinite(Number(text))) follower.value = placeOf(follower, text);
}

// Choosing a source fills the form at once; its button serves those without scripts.
function onChange(event) {
  if (event.target.matches("select[data-source]") && event.target.value) event.target.form.submit();
}

document.addEventListener("input", onInput, true);
document.addEventListener("change", onChange);
