export type Points = readonly (readonly [string, string])[];

/** The shortest way from one track to another, both included. */
export function route(points: Points, from: string, to: string): string[] | undefined {
  const next = new Map<string, Set<string>>();
  for (const [a, b] of points) {
    for (const [one, other] of [[a, b], [b, a]] as const) {
      if (!next.has(one)) next.set(one, new Set());
      next.get(one)?.add(other);
    }
  }
  if (!next.has(from)) return undefined;
  // Ways of one length in the order of the alphabet: the first that arrives at
  // a track is the one to keep.
  let ways: string[][] = [[from]];
  const seen = new Set([from]);
  while (ways.length > 0) {
    const arrived = ways.find((way) => way.at(-1) === to);
    if (arrived) return arrived;
    const longer: string[][] = [];
    for (const way of ways) {
      for (const track of [...(next.get(way.at(-1) as string) ?? [])].sort()) {
        if (seen.has(track)) continue;
        seen.add(track);
        longer.push([...way, track]);
      }
    }
    ways = longer;
  }
  return undefined;
}
