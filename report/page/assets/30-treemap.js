// Squarified treemap (Bruls, Huizing, van Wijk 2000, doi:10.1007/978-3-7091-6783-0_4): areas proportional to weights, cells close to squares.

// weights: descending and positive. Returns [x, y, width, height] for each.
function treemap(weights, x, y, width, height) {
  const cells = [];
  let total = 0;
  for (const weight of weights) total += weight;
  const scale = (width * height) / total;
  let first = 0;
  while (first < weights.length) {
    const side = Math.max(Math.min(width, height), 1e-6);
    let sum = 0;
    let end = first;
    let worst = Infinity;
    while (end < weights.length) {
      const grown = sum + weights[end] * scale;
      const ratio = Math.max((side * side * weights[first] * scale) / (grown * grown), (grown * grown) / (side * side * weights[end] * scale));
      if (ratio > worst) break;
      worst = ratio;
      sum = grown;
      end += 1;
    }
    const depth = sum / side;
    let offset = 0;
    for (let i = first; i < end; i += 1) {
      const length = (weights[i] * scale) / depth;
      cells.push(width >= height ? [x, y + offset, depth, length] : [x + offset, y, length, depth]);
      offset += length;
    }
    if (width >= height) {
      x += depth;
      width -= depth;
    } else {
      y += depth;
      height -= depth;
    }
    first = end;
  }
  return cells;
}
