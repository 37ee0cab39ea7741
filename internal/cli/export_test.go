package cli

// ExitCancelled is the exit code after a signal, for the tests of the whole command.
const ExitCancelled = exitCancelled

// ExitCode returns the code with which a command of these wings ends after an error.
func ExitCode(err error, wings []Wing) int { return New(Env{}, wings).exitCode(err) }
