package cli

// The exit codes, for the tests of the whole command.
const (
	ExitCancelled = exitCancelled
	ExitUnsafe    = exitUnsafe
)

// ExitCode is exitCode.
var ExitCode = exitCode

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
