package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/secret"
)

var fingerprintText = regexp.MustCompile(`^[0-9a-f]{16}$`)

// CheckFingerprints checks the values of --allow.
func CheckFingerprints(allow []string) error {
	for _, x := range allow {
		if !fingerprintText.MatchString(x) {
			return Usage(fmt.Errorf("--allow %q is not a fingerprint of 16 hex digits", x))
		}
	}
	return nil
}

// SecretScanner returns the scanner of this installation, and the fingerprints of findings that the user
// allows, now or earlier.
func (a *App) SecretScanner(records local.Archives, allow []string) (*secret.Scanner, []string, error) {
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
		a.Notef("segno: %s; findings that it allowed are reported again", Clean(err.Error()))
	}
	return scanner, append(allowed, allow...), nil
}

// RecordAllowed records the fingerprints of --allow that match findings. It prints a note about the
// others.
func (a *App) RecordAllowed(ctx context.Context, records local.Archives, allow, found []string) {
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
		a.Notef("segno: %s; the finding is reported again the next time", Clean(err.Error()))
	}
}

// secretsError counts the findings that refused an archive. RefuseSecrets prints them first.
type secretsError struct{ *archive.CheckpointSecretError }

func (e secretsError) Error() string { return "the scan found " + Plural(len(e.Findings), "secret") }

func (e secretsError) Unwrap() error { return e.CheckpointSecretError }

// RefuseSecrets prints the findings that refuse an archive or an export, and returns the error.
func (a *App) RefuseSecrets(op, path string, findings []secret.Finding, hint string) error {
	for n, f := range findings {
		if a.JSON {
			break // report prints the findings as JSON
		}
		if n == maxArchiveLines {
			a.Notef("and %d more; --json lists all", len(findings)-n)
			break
		}
		a.Notef("secret: %s: %s (%s): %s  fingerprint %s", findingPlace(f), Inline(f.About), Inline(f.Rule), Inline(f.Sample), f.Fingerprint)
	}
	return segno.NewError(segno.KindRefused, op, path, secretsError{&archive.CheckpointSecretError{Findings: findings}}).WithHint(hint)
}

// findingPlace is the file and the line of a finding.
func findingPlace(f secret.Finding) string {
	if f.Record == 0 {
		return QuotePath(f.Path)
	}
	return fmt.Sprintf("%s:%d", QuotePath(f.Path), f.Record)
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

// ExportWaysOn returns the hint for the findings of an export.
func ExportWaysOn(findings []secret.Finding) string {
	return "use --redact to leave them out, or " + AllowHint(findings)
}
