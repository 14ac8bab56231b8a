import { expect, test } from "bun:test";
import { type Points, route } from "./points";

const yard: Points = [["hall", "d"], ["hall", "b"], ["b", "c"], ["d", "c"], ["c", "main"], ["hall", "x"], ["x", "y"], ["y", "z"], ["z", "main"], ["shed", "pit"]];

test("stays where it is", () => expect(route(yard, "b", "b")).toEqual(["b"]));
test("over one point", () => expect(route(yard, "hall", "x")).toEqual(["hall", "x"]));
test("backwards", () => expect(route(yard, "main", "z")).toEqual(["main", "z"]));
test("the shortest, and of two the first by name", () => expect(route(yard, "hall", "main")).toEqual(["hall", "b", "c", "main"]));
test("the same way back is judged from its own beginning", () => expect(route(yard, "main", "hall")).toEqual(["main", "c", "b", "hall"]));
test("no way", () => expect(route(yard, "hall", "pit")).toBeUndefined());
test("an unknown track", () => expect(route(yard, "nowhere", "hall")).toBeUndefined());
test("an unknown track leads not even to itself", () => expect(route(yard, "nowhere", "nowhere")).toBeUndefined());
