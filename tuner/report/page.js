// Draws the charts of a zf-tune report from the data that the page holds.
// Then sets <html data-charts="drawn">, or "failed" if a chart failed, which says so in its place.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const charts = [];

  /** Returns the current colours of the page: light, dark, or for paper. */
  const colors = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue("--" + name).trim();
    return {
      ink: of("ink"),
      soft: of("soft"),
      line: of("line"),
      training: of("training"),
      optimizer: of("optimizer"),
    };
  };

  const median = (quartiles) => (quartiles ? quartiles[1] : null);

  /** Returns how far an axis must reach so that no whisker is cut off. */
  const highest = (all) => Math.max(...all.map((quartiles) => (quartiles ? quartiles[2] : 0)));

  /** Draws whiskers from the first quartile to the third of every point that has `quartiles`. */
  const whiskers = {
    id: "whiskers",
    afterDatasetsDraw(chart) {
      const { ctx } = chart;
      const flat = chart.options.indexAxis === "y";
      const scale = flat ? chart.scales.x : chart.scales.y;
      ctx.save();
      ctx.strokeStyle = colors().ink;
      ctx.lineWidth = 1.25;
      chart.data.datasets.forEach((dataset, index) => {
        if (!dataset.quartiles || !chart.isDatasetVisible(index)) return;
        chart.getDatasetMeta(index).data.forEach((point, at) => {
          const quartiles = dataset.quartiles[at];
          if (!quartiles) return;
          const [low, high] = [scale.getPixelForValue(quartiles[0]), scale.getPixelForValue(quartiles[2])];
          const line = (from, to) => {
            ctx.moveTo(...(flat ? from : from.slice().reverse()));
            ctx.lineTo(...(flat ? to : to.slice().reverse()));
          };
          const across = flat ? point.y : point.x;
          ctx.beginPath();
          line([low, across], [high, across]);
          line([low, across - 3], [low, across + 3]);
          line([high, across - 3], [high, across + 3]);
          ctx.stroke();
        });
      });
      ctx.restore();
    },
  };

  /** Draws a labelled line from top to bottom at the chosen pool. */
  const marks = {
    id: "marks",
    beforeDatasetsDraw(chart) {
      const { ctx } = chart;
      const { top, bottom, left, right } = chart.chartArea;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = colors().ink;
      ctx.setLineDash([2, 3]);
      ctx.font = "600 12px " + Chart.defaults.font.family;
      data.bandwidth.marks.forEach((mark, index) => {
        const x = chart.scales.x.getPixelForValue(mark.x);
        const atRight = x > (left + right) / 2;
        ctx.beginPath();
        ctx.moveTo(x, top);
        ctx.lineTo(x, bottom);
        ctx.stroke();
        ctx.textAlign = atRight ? "right" : "left";
        ctx.fillText(mark.text, x + (atRight ? -6 : 6), bottom - 8 - 16 * index);
      });
      ctx.restore();
    },
  };

  const title = (text) => ({ display: true, text });

  function sides() {
    const rows = data.sides;
    const bars = (label, key, color) => ({
      label,
      data: rows.map((row) => median(row[key])),
      quartiles: rows.map((row) => row[key]),
      color,
    });
    const steps = data.interval === 1 ? "1 training step" : `${data.interval} training steps`;
    const datasets = [bars("optimizer step", "step", "optimizer")];
    if (rows.some((row) => row.training)) datasets.unshift(bars(steps, "training", "training"));
    document.getElementById("sides-chart").style.height =
      `${90 + rows.length * 13 * (datasets.length + 0.4)}px`;
    return {
      type: "bar",
      data: { labels: rows.map((row) => (row.chosen ? "▶ " : "") + row.label), datasets },
      options: {
        indexAxis: "y",
        datasets: { bar: { barPercentage: 0.95, categoryPercentage: 0.75 } },
        scales: {
          x: {
            min: 0,
            suggestedMax: highest(rows.flatMap((row) => [row.step, row.training])),
            title: title(`time, ${data.unit}`),
          },
          y: {
            grid: { display: false },
            ticks: {
              autoSkip: false,
              font: (at) => ({ weight: rows[at.index]?.chosen ? "bold" : "normal" }),
            },
          },
        },
        plugins: {
          tooltip: {
            callbacks: { label: (at) => `${at.dataset.label}: ${at.parsed.x.toPrecision(3)} ${data.unit}` },
          },
        },
      },
      plugins: [whiskers],
    };
  }

  function bandwidth() {
    const { points, roofline } = data.bandwidth;
    const steps = (placement, pointStyle) => {
      const own = points.filter((point) => point.placement === placement);
      return {
        label: `our optimizer step, ${placement}`,
        data: own.map((point) => ({ x: point.x, y: median(point.y) })),
        quartiles: own.map((point) => point.y),
        labels: own.map((point) => point.label),
        color: placement === "compact" ? "optimizer" : "training",
        pointStyle,
        pointRadius: 5,
        showLine: false,
      };
    };
    const datasets = [steps("compact", "circle"), steps("spread", "triangle")].filter(
      (set) => set.data.length > 0,
    );
    datasets.push({
      label: "roofline, same cores",
      data: roofline,
      color: "soft",
      borderDash: [6, 4],
      borderWidth: 2,
      pointRadius: 2,
      showLine: true,
    });
    const most = Math.max(...points.map((point) => point.x));
    return {
      type: "scatter",
      data: { datasets },
      options: {
        scales: {
          x: {
            min: 0,
            max: most + Math.max(1, Math.round(most / 20)),
            ticks: { precision: 0 },
            title: title("pool threads per rank"),
          },
          y: {
            min: 0,
            suggestedMax: highest(points.map((point) => point.y)),
            title: title("GB/s, all ranks together"),
          },
        },
        plugins: {
          tooltip: {
            callbacks: {
              label: (at) =>
                `${at.dataset.labels?.[at.dataIndex] ?? "roofline"}: ${at.parsed.y.toPrecision(3)} GB/s`,
            },
          },
        },
      },
      plugins: [marks, whiskers],
    };
  }

  /** Draws a line across at the loss up to which there is headroom. */
  const limit = {
    id: "limit",
    beforeDatasetsDraw(chart) {
      const { ctx } = chart;
      const { left, right } = chart.chartArea;
      const y = chart.scales.y.getPixelForValue(data.headroom.limit);
      ctx.save();
      ctx.strokeStyle = colors().ink;
      ctx.setLineDash([2, 3]);
      ctx.beginPath();
      ctx.moveTo(left, y);
      ctx.lineTo(right, y);
      ctx.stroke();
      ctx.restore();
    },
  };

  function headroom() {
    const line = (label, points, color) => ({ label, data: points, color, pointRadius: 0, borderWidth: 2, showLine: true });
    const { training, step } = data.headroom;
    return {
      type: "scatter",
      data: { datasets: [line("training faster", training, "training"), line("step longer", step, "optimizer")] },
      options: {
        scales: {
          x: { type: "linear", min: 1, max: 4, title: title("factor") },
          y: {
            min: 0,
            suggestedMax: 2 * data.headroom.limit,
            title: title("loss, % of a period"),
          },
        },
        plugins: {
          tooltip: {
            callbacks: { label: (at) => `${at.dataset.label} ${at.parsed.x.toPrecision(3)} times: ${at.parsed.y.toFixed(1)} %` },
          },
        },
      },
      plugins: [limit],
    };
  }

  function paint(chart) {
    const now = colors();
    for (const dataset of chart.data.datasets) {
      dataset.backgroundColor = dataset.borderColor = now[dataset.color];
    }
    for (const scale of Object.values(chart.options.scales)) {
      scale.grid.color = scale.grid.borderColor = now.line;
      scale.ticks.color = scale.title.color = now.ink;
    }
    chart.options.plugins.legend.labels.color = now.ink;
    chart.update();
  }

  function draw(id, config) {
    const place = document.getElementById(id);
    try {
      const chart = new Chart(place.querySelector("canvas"), config());
      paint(chart);
      charts.push(chart);
      return true;
    } catch (error) {
      place.textContent = `This chart could not be drawn (${error}). The table shows its figures.`;
      place.className = "failed";
      return false;
    }
  }

  /** Fits the charts to `width`, or to the screen without it. Paper is narrower than a screen. */
  function fit(width) {
    for (const chart of charts) {
      if (width) chart.resize(width, chart.height);
      else chart.resize();
      paint(chart);
    }
  }

  Chart.defaults.animation = false;
  Chart.defaults.maintainAspectRatio = false;
  Chart.defaults.devicePixelRatio = Math.max(2, window.devicePixelRatio);
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.plugins.legend.labels.usePointStyle = true;
  const drawn = [draw("sides-chart", sides), draw("bandwidth-chart", bandwidth)];
  if (data.headroom) drawn.push(draw("headroom-chart", headroom));
  document.documentElement.dataset.charts = drawn.every(Boolean) ? "drawn" : "failed";

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => fit());
  addEventListener("beforeprint", () => fit(680));
  addEventListener("afterprint", () => fit());
})();
