const day = 24 * 60;

/** Minutes since midnight of a time such as "07:05". */
export function minutes(time: string): number {
  const m = /^([01]\d|2[0-3]):([0-5]\d)$/.exec(time);
  if (!m) throw new RangeError(`not a time: ${JSON.stringify(time)}`);
  return Number(m[1]) * 60 + Number(m[2]);
}

/** Minutes from a departure to the next arrival at that time. */
export function journey(departure: string, arrival: string): number {
  return (minutes(arrival) - minutes(departure) + day) % day;
}

/** The time that is so many minutes later, or earlier if negative. */
export function later(time: string, by: number): string {
  const at = (((minutes(time) + by) % day) + day) % day;
  const two = (n: number) => String(n).padStart(2, "0");
  return `${two(Math.floor(at / 60))}:${two(at % 60)}`;
}
