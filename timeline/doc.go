// Package timeline is the engine over one store and one workspace: it begins and ends
// turns, records their changes, and plans and executes undo, redo, restore and fork.
package timeline
