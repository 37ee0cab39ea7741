// Package secretscan has what the verbs that write archives and exports share about the scan for secrets: the scanner of this
// installation, the flag --allow, and the report of findings.
package secretscan

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/secret"
)

var fingerprintText = regexp.MustCompile(`^[0-9a-f]{16}$`)

// CheckAllowed checks the values of --allow.
func CheckAllowed(allow []string) error {
	for _, x := range allow {
		if !fingerprintText.MatchString(x) {
			return cli.Usage(fmt.Errorf("--allow %q is not a fingerprint of 16 hex digits", x))
		}
	}
	return nil
}

// Open returns the scanner of this installation, and the fingerprints of findings that the user
// allows, now or earlier.
func Open(a *cli.App, records local.Archives, allow []string) (*secret.Scanner, []string, error) {
	key, err := records.Key()
	if err != nil {
		return nil, nil, err
	}
	scanner, err := secret.New(secret.Options{Key: key, Environ: a.Environ()})
	if err != nil {
		return nil, nil, err
	}
	allowed, err := records.Allowed()
	if err != nil {
		a.Notef("segno: %s; findings that it allowed are reported again", cli.Clean(err.Error()))
	}
	return scanner, append(allowed, allow...), nil
}

// RecordAllowed records the fingerprints of --allow that match findings. It prints a note about the
// others.
func RecordAllowed(ctx context.Context, a *cli.App, records local.Archives, allow, found []string) {
	var used []string
	for _, x := range allow {
		if slices.Contains(found, x) {
			used = append(used, x)
		} else {
			a.Notef("note: --allow %s was not needed: no finding has it", x)
		}
	}
	if len(used) == 0 {
		return
	}
	if err := records.Allow(ctx, used); err != nil {
		a.Notef("segno: %s; the finding is reported again the next time", cli.Clean(err.Error()))
	}
}

// Error refuses an archive or an export with findings. It ends the command with [cli.ExitSecret].
type Error struct{ Findings []secret.Finding }

// Error counts the findings, because [Refuse] has printed them.
func (e *Error) Error() string { return "the scan found " + cli.Plural(len(e.Findings), "secret") }

// Report is the report of a wing whose verbs call [Refuse]; see [cli.Wing].
func Report(err error) (code int, fields map[string]any) {
	if found := (*Error)(nil); errors.As(err, &found) {
		return cli.ExitSecret, map[string]any{"findings": found.Findings}
	}
	return 0, nil
}

// Refuse prints the findings that refuse an archive or an export, and returns the error.
func Refuse(a *cli.App, op, path string, findings []secret.Finding, hint string) error {
	for n, f := range findings {
		if a.JSON {
			break // report prints the findings as JSON
		}
		if n == cli.MaxLines {
			a.Notef("and %d more; --json lists all", len(findings)-n)
			break
		}
		a.Notef("secret: %s: %s (%s): %s  fingerprint %s", findingPlace(f), cli.Inline(f.About), cli.Inline(f.Rule), cli.Inline(f.Sample), f.Fingerprint)
	}
	return segno.NewError(segno.KindRefused, op, path, &Error{Findings: findings}).WithHint(hint)
}

// findingPlace is the file and the line of a finding.
func findingPlace(f secret.Finding) string {
	if f.Record == 0 {
		return cli.QuotePath(f.Path)
	}
	return fmt.Sprintf("%s:%d", cli.QuotePath(f.Path), f.Record)
}

// AllowHint returns the part of a hint that explains --allow.
func AllowHint(findings []secret.Finding) string {
	for _, f := range findings {
		if f.Fingerprint != findings[0].Fingerprint {
			return "--allow FINGERPRINT for each that is not a secret"
		}
	}
	return "--allow " + findings[0].Fingerprint + " if it is not a secret"
}

// ExportHint returns the hint for the findings of an export.
func ExportHint(findings []secret.Finding) string {
	return "use --redact to leave them out, or " + AllowHint(findings)
}
