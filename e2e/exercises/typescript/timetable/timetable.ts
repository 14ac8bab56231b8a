/** Minutes since midnight of a time such as "07:05". */
export function minutes(time: string): number {
  throw new Error("not written yet");
}

/** Minutes from a departure to the next arrival at that time. */
export function journey(departure: string, arrival: string): number {
  throw new Error("not written yet");
}

/** The time that is so many minutes later, or earlier if negative. */
export function later(time: string, by: number): string {
  throw new Error("not written yet");
}
