import { describe, expect, test } from "bun:test";
import { journey, later, minutes } from "./timetable";

describe("minutes", () => {
  test.each([["00:00", 0], ["07:05", 425], ["23:59", 1439]])("%s", (time, want) => {
    expect(minutes(time as string)).toBe(want as number);
  });
  test.each(["", "7:05", "24:00", "12:60", "12-30", "12:30 ", "ab:cd"])("refuses %p", (time) => {
    expect(() => minutes(time)).toThrow(RangeError);
  });
});

test("a journey by day", () => expect(journey("09:15", "10:05")).toBe(50));
test("a journey by night", () => expect(journey("22:30", "06:10")).toBe(460));
test("no time at all", () => expect(journey("12:00", "12:00")).toBe(0));
test("a delay", () => expect(later("09:58", 7)).toBe("10:05"));
test("a delay past midnight", () => expect(later("23:50", 25)).toBe("00:15"));
test("too early", () => expect(later("00:05", -10)).toBe("23:55"));
test("days later", () => expect(later("08:00", 2 * 1440 + 1)).toBe("08:01"));
