// Package generation runs experiments: generations of agents that live in a world. Each generation begins with
// the workspaces that the one before it left. [Runner.Run] makes checkpoints while agents live, and
// continues a generation that failed from the newest checkpoint that verifies. [ReadStatus] reads the progress of an
// experiment, and [ReadLog] its history.
//
// # Directories
//
// [Config.Out] has:
//
//	NAME/generation_chain.csv       a row for each agent of each attempt that is over
//	NAME/attempts/NAME-g001-a1      symlink to the directory of this attempt
//	NAME/checkpoint.json            the newest checkpoint
//	NAME/status.json                how far the experiment is, for people
//	NAME/key                        makes the agents' sessions in the world
//	NAME/lock                       is locked by the runner
//	NAME/runner.json                the process of the runner, and its settings
//	NAME/pause.json                 asks the runner to pause
//	NAME-g001/                      a run: generation 1
//	NAME-g001/agents/Ada/workspace  also home, and run, which is empty at each start
//	NAME-g001/checkpoints/gen001-t000012.ckpt
//	NAME-g001/run.json              the attempt
//	NAME-g001/story.txt             the story of its world
//	NAME-g001.failed-STAMP          a run that failed; it is never deleted
//	NAME-g001.paused-STAMP          a run that was paused and went on
//
// An attempt that resumes a run gets the directory of the run that failed, because agents see its path. It has a
// separate id, which the rows of the chain contain. The file run.json in the directory of a run is the truth about its
// attempt. [Runner.Run] makes the chain and the symlinks in attempts from these files, so the next runner completes
// whatever a killed runner left undone.
//
// # Time
//
// In each tick the runner gives each agent a turn, which is one process, and then advances the
// world. Between two ticks no agent runs. A checkpoint made there has one consistent moment, without
// stopping an agent. If the world applies actions at the end of a tick, a resumed run takes
// the same course as one that was not interrupted.
package generation
