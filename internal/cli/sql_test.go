package cli_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	_ "modernc.org/sqlite"
)

// sqlMain is the script command 'sql FILE STATEMENT [-- COMMAND ...]'. It prints the rows of a statement,
// and runs a command while it has the database open.
func sqlMain() {
	if err := runSQL(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			os.Exit(exit.ExitCode())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runSQL(file, statement string, command []string) error {
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	rows, err := db.Query(statement)
	if err != nil {
		return err
	}
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		values, to := make([]string, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		fmt.Println(strings.Join(values, " "))
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(command) < 2 {
		return err
	}
	child := exec.Command(command[1], command[2:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	return child.Run()
}
