// Draws every <figure data-chart="URL"> from its JSON {figure, columns, rows, note}. The theme gives text, grid and
// hover colours; everything else is in the figure. With data-follow the chart takes the page's query, and is drawn anew
// when that changes.
"use strict";

const CONFIG = {
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  responsive: true,
  displayModeBar: false,
};

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function themed(layout) {
  const [text, muted, grid, panel] = ["--text", "--muted", "--line", "--panel"].map(colour);
  const changes = {
    "font.color": text,
    "hoverlabel.bgcolor": panel,
    "hoverlabel.bordercolor": muted,
    "hoverlabel.font.color": text,
  };
  for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
    changes[`${name}.gridcolor`] = grid;
    changes[`${name}.linecolor`] = muted;
    changes[`${name}.tickfont.color`] = muted;
    changes[`${name}.title.font.color`] = text;
  }
  return changes;
}

function withTheme(layout) {
  for (const [path, value] of Object.entries(themed(layout))) {
    const keys = path.split(".");
    const last = keys.pop();
    keys.reduce((place, key) => (place[key] ??= {}), layout)[last] = value;
  }
  return layout;
}

function fillTable(figure, columns, rows) {
  const table = figure.querySelector("table");
  table.replaceChildren();
  const head = table.createTHead().insertRow();
  for (const name of columns) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const value of row) line.insertCell().textContent = value;
  }
  figure.querySelector("details").hidden = rows.length === 0;
}

function say(figure, text) {
  const caption = figure.querySelector("figcaption");
  caption.textContent = text || "";
  caption.hidden = !text;
}

function follow(plot) {
  plot.on("plotly_click", (event) => {
    const point = event.points[0];
    const hrefs = point.data.meta;
    if (Array.isArray(hrefs) && hrefs[point.pointNumber]) location.assign(hrefs[point.pointNumber]);
  });
}

function tell(plot, text) {
  if (plot.data) Plotly.purge(plot);
  plot.closest("figure").querySelector("details").hidden = true;
  plot.replaceChildren(Object.assign(document.createElement("p"), { className: "muted", textContent: text }));
}

async function draw(figure) {
  const plot = figure.querySelector(".plot");
  const turn = (figure.turn = (figure.turn || 0) + 1);
  let chart;
  try {
    const query = "follow" in figure.dataset ? location.search : "";
    const answer = await fetch(figure.dataset.chart + query, { headers: { Accept: "application/json" } });
    chart = await answer.json();
  } catch {
    return void tell(plot, "The chart could not be loaded. Reload the page; the tables hold the same numbers.");
  }
  if (turn !== figure.turn) return; // a later question was asked meanwhile
  if (!chart.figure) return void tell(plot, chart.note);
  const known = Boolean(plot.data);
  if (!known) plot.replaceChildren();
  plot.style.minHeight = `${chart.figure.layout.height}px`;
  await Plotly.react(plot, chart.figure.data, withTheme(chart.figure.layout), CONFIG);
  if (!known) follow(plot);
  fillTable(figure, chart.columns, chart.rows);
  say(figure, chart.note);
}

function lastX(plot) {
  return Math.max(-1, ...plot.data.map((trace) => trace.x[trace.x.length - 1] ?? -1));
}

async function append(figure) {
  const plot = figure.querySelector(".plot");
  if (!plot.data || figure.dataset.busy) return;
  figure.dataset.busy = "yes";
  try {
    const answer = await fetch(`${figure.dataset.chart}?after=${lastX(plot)}`);
    const traces = (await answer.json()).figure.data;
    if (answer.ok && traces[0].x.length) {
      const take = (key) => traces.map((trace) => trace[key]);
      await Plotly.extendTraces(plot, { x: take("x"), y: take("y"), customdata: take("customdata") }, [...traces.keys()]);
    }
  } catch {
    // The next second tries again.
  } finally {
    delete figure.dataset.busy;
  }
}

function drawn() {
  return [...document.querySelectorAll("[data-chart] .plot")].filter((plot) => plot.data);
}

document.addEventListener("themechange", () => {
  for (const plot of drawn()) Plotly.relayout(plot, themed(plot.layout));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  document.dispatchEvent(new CustomEvent("themechange"));
});
document.addEventListener("htmx:afterSettle", () => {
  for (const figure of document.querySelectorAll("[data-live]")) append(figure);
});
document.addEventListener("htmx:replacedInHistory", () => {
  for (const figure of document.querySelectorAll("[data-follow]")) draw(figure);
});
document.addEventListener("DOMContentLoaded", async () => {
  await Promise.all([...document.querySelectorAll("[data-chart]")].map(draw));
  document.body.dataset.drawn = "yes";
});
