// Numbers as people read them.
export const ms = (us) => {
  if (us == null || !isFinite(us)) return "–";
  const value = us / 1000;
  if (value >= 10000) return (value / 1000).toFixed(1) + " s";
  if (value >= 1000) return (value / 1000).toFixed(2) + " s";
  return (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)) + " ms";
};
export const count = (n) => {
  if (n == null || !isFinite(n)) return "–";
  if (n >= 1e9) return (n / 1e9).toFixed(2) + " G";
  if (n >= 1e6) return (n / 1e6).toFixed(2) + " M";
  if (n >= 10000) return (n / 1e3).toFixed(1) + " k";
  return n >= 100 || Number.isInteger(n) ? Math.round(n).toString() : n.toFixed(1);
};
export const bytes = (n) => {
  for (const unit of ["B", "KB", "MB", "GB", "TB"]) {
    if (n < 1000) return (n >= 100 || unit === "B" ? n.toFixed(0) : n.toFixed(1)) + " " + unit;
    n /= 1000;
  }
  return n.toFixed(1) + " PB";
};
export const percent = (x) => (isFinite(x) ? (x * 100).toFixed(x < 0.0995 ? 1 : 0) + "%" : "–");
export const middle = (list) => {
  if (!list.length) return NaN;
  const sorted = Float64Array.from(list).sort();
  return sorted[(sorted.length - 1) >> 1];
};
export const $ = (id) => document.getElementById(id);

// Changes the text only when it is another one, so that nothing is laid out or announced for nothing.
export const put = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};
export const make = (tag, options = {}, ...children) => {
  const { className, text, ...rest } = options;
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text != null) node.textContent = text;
  for (const [name, value] of Object.entries(rest)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
export const svg = (tag, attributes = {}, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
