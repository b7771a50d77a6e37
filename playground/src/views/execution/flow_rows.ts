/**
 * Wraps a layout whose layers lie side by side, as a text is wrapped: the layers fill rows, which lie one below the other.
 * So the steps of a long chain keep a readable size.
 */

export interface Place {
  x: number;
  y: number;
}

export type Places = ReadonlyMap<string, Place>;

export const NODE_WIDTH = 176;
export const NODE_HEIGHT = 62;
/** Distance between two layers in pixels. */
export const LAYER_GAP = 56;
const ROW_GAP = 44;

/** Returns the number of layers that fit side by side into a width in pixels; at least 1. */
export function columnsIn(width: number): number {
  return Math.max(1, Math.floor((width + LAYER_GAP) / (NODE_WIDTH + LAYER_GAP)));
}

/** Returns the places of the steps' centres, with at most this number of layers in a row. */
export function wrapped(places: Places, columns: number): Map<string, Place> {
  const layers = layersOf(places);
  const result = new Map<string, Place>();
  let top = 0;
  for (let first = 0; first < layers.length; first += columns) {
    const row = layers.slice(first, first + columns);
    const heights = row.flat().map(([, { y }]) => y);
    const highest = Math.min(...heights);
    row.forEach((layer, column) => {
      for (const [name, { y }] of layer) {
        result.set(name, { x: NODE_WIDTH / 2 + column * (NODE_WIDTH + LAYER_GAP), y: top + NODE_HEIGHT / 2 + y - highest });
      }
    });
    top += Math.max(...heights) - highest + NODE_HEIGHT + ROW_GAP;
  }
  return result;
}

/** Returns the layers from left to right. */
function layersOf(places: Places): [string, Place][][] {
  const layers = new Map<number, [string, Place][]>();
  for (const [name, place] of places) {
    const x = Math.round(place.x);
    layers.set(x, [...(layers.get(x) ?? []), [name, place]]);
  }
  return [...layers].toSorted(([a], [b]) => a - b).map(([, layer]) => layer);
}

/** Returns the number of layers that lie side by side. */
export function layerCount(places: Places): number {
  return layersOf(places).length;
}

/** Returns the places with those of further steps, which have no transitions, in rows below them. */
export function withRest(places: Places, rest: readonly string[], columns: number): Map<string, Place> {
  const top = places.size > 0 ? sizeOf(places).height + ROW_GAP : 0;
  const added = rest.map((name, index): [string, Place] => [
    name,
    {
      x: NODE_WIDTH / 2 + (index % columns) * (NODE_WIDTH + LAYER_GAP),
      y: top + NODE_HEIGHT / 2 + Math.floor(index / columns) * (NODE_HEIGHT + ROW_GAP),
    },
  ]);
  return new Map([...places, ...added]);
}

/** Returns the size that the places need, with their steps. They begin at 0. */
export function sizeOf(places: Places): { width: number; height: number } {
  const all = [...places.values()];
  return {
    width: Math.max(0, ...all.map(({ x }) => x)) + NODE_WIDTH / 2,
    height: Math.max(0, ...all.map(({ y }) => y)) + NODE_HEIGHT / 2,
  };
}
