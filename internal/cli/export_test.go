package cli

// ExitCancelled is the exit code after a signal, for the tests of the whole command.
const ExitCancelled = exitCancelled

// ExitCode returns the code with which a command of these wings ends after an error.
func ExitCode(err error, wings []Wing) int { return New(Env{}, wings).exitCode(err) }

// ExitRow is a row of the table of exit codes.
type ExitRow struct {
	Code int
	Text string
}

// ExitTable returns the table of exit codes.
func ExitTable() (rows []ExitRow) {
	for _, e := range exitTable {
		rows = append(rows, ExitRow{e.code, e.text})
	}
	return rows
}
