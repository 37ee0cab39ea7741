// Package timeline is the engine over one store and one workspace: it begins and ends
// turns, records their changes, and plans and executes undo, redo, restore and fork.
//
// [Open] makes a [Timeline]. A recorder of turns calls [Timeline.BeginTurn] at a prompt,
// [Timeline.AppendEntry] at each tool call and [Timeline.EndTurn] when the agent stops. A user
// interface calls [Timeline.Preview] and then [Timeline.Move] with the same [MoveRequest]. Preview,
// and the methods that change something, hold the lock of the workspace, apply the commits that an
// earlier process deferred, and complete a move that it left unfinished. A timeline without a
// workspace only moves pointers: see [Timeline.MoveHead] and [Timeline.ForkThread].
package timeline
