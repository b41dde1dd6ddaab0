// Theme, keys, menus and row selection. Everything else is the server's work.
"use strict";

const THEMES = ["", "light", "dark"];
const THEME_NAMES = { "": "as the system", light: "light", dark: "dark" };
const GO = { o: "overview", r: "runs", c: "compare", e: "endpoints", b: "benchmarks", t: "theory" };

function showTheme(theme) {
  document.documentElement.dataset.theme = theme;
  for (const button of document.querySelectorAll("[data-theme-switch]")) {
    button.setAttribute("aria-label", `Theme: ${THEME_NAMES[theme]}. Switch`);
    button.title = `Theme: ${THEME_NAMES[theme]}`;
  }
}

function nextTheme() {
  const now = THEMES.indexOf(document.documentElement.dataset.theme);
  const theme = THEMES[(now + 1) % THEMES.length];
  document.cookie = `theme=${theme}; path=/; max-age=31536000; samesite=lax`;
  showTheme(theme);
  document.dispatchEvent(new CustomEvent("themechange"));
}

function search() {
  return document.querySelector("main [data-search]") || document.querySelector("[data-search]");
}

function visit(name) {
  const link = document.querySelector(`.topbar [data-go="${name}"]`);
  if (link) location.assign(link.href);
}

let afterG = false;

function onKey(event) {
  if (event.key === "Escape") closeMenus(null);
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, textarea")) return;
  const key = event.key;
  if (afterG && GO[key]) visit(GO[key]);
  else if (key === "/" && search()) search().focus();
  else if (key === "c") document.querySelector("[data-compare]:enabled")?.click();
  else return void (afterG = key === "g");
  afterG = false;
  event.preventDefault();
}

function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (menu !== except) menu.open = false;
  }
}

function picks() {
  return [...document.querySelectorAll("input[data-pick]")];
}

function showPicks() {
  const boxes = picks();
  const count = boxes.filter((box) => box.checked).length;
  for (const box of boxes) box.closest("tr").classList.toggle("picked", box.checked);
  for (const button of document.querySelectorAll("[data-compare]")) {
    button.disabled = count < 2 || count > 8;
    button.querySelector("[data-count]").textContent = count ? `(${count})` : "";
  }
}

let lastPick = null;

function onClick(event) {
  closeMenus(event.target.closest("details.menu"));
  if (event.target.closest("[data-theme-switch]")) nextTheme();
  const copy = event.target.closest("[data-copy]");
  if (copy) navigator.clipboard?.writeText(document.getElementById(copy.dataset.copy).textContent);
  const box = event.target.closest("input[data-pick]");
  if (!box) return;
  const boxes = picks();
  const from = boxes.findIndex((other) => other.id === lastPick);
  if (event.shiftKey && from >= 0) {
    const to = boxes.indexOf(box);
    for (const other of boxes.slice(Math.min(from, to), Math.max(from, to) + 1)) other.checked = box.checked;
  }
  lastPick = box.id;
  showPicks();
}

// A second click on a form that is on its way would start a second run.
function onSubmit(event) {
  if (event.target.method !== "post" || event.target.hasAttribute("hx-post")) return;
  const buttons = event.target.querySelectorAll("[type=submit]");
  setTimeout(() => buttons.forEach((button) => (button.disabled = true)));
}

// Fields that count only for some choices are shown for these. Without this script all are.
function showFields() {
  for (const part of document.querySelectorAll("[data-only]")) {
    const chooser = part.closest("form").elements[part.dataset.only];
    part.hidden = !part.dataset.values.split(" ").includes(chooser.value);
  }
}

document.addEventListener("submit", onSubmit);
document.addEventListener("change", showFields);
document.addEventListener("keydown", onKey);
document.addEventListener("click", onClick);
document.addEventListener("htmx:afterSettle", showPicks);
document.addEventListener("DOMContentLoaded", () => {
  showTheme(document.documentElement.dataset.theme || "");
  showPicks();
  showFields();
  document.querySelector(".topbar nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  document.body.dataset.ready = "yes";
});
window.addEventListener("pageshow", (event) => {
  if (event.persisted) document.querySelectorAll("form [type=submit]:disabled").forEach((button) => (button.disabled = false));
  showPicks();
  showFields();
});
