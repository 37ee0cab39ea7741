package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/zricethezav/gitleaks/v8/detect"

	"github.com/dalsegno/segno/secret"
)

// scanBytes is the size of the text for the scanners. gitleaks takes seconds for it.
const scanBytes = 8 << 20

// scanners measures the scanner for secrets and gitleaks with its default rules, both as
// libraries in one thread, on sources and on a transcript.
func scanners(ctx context.Context, b *bench) error {
	root, err := b.scratch("scanner")
	if err != nil {
		return err
	}
	in, err := newArchiveInput(filepath.Join(root, "input"))
	if err != nil {
		return fmt.Errorf("make input: %w", err)
	}
	transcript, err := os.ReadFile(in.transcript)
	if err != nil {
		return err
	}
	segno, err := secret.New(secret.Options{})
	if err != nil {
		return err
	}
	for _, text := range []struct {
		name string
		data []byte
	}{{"sources", in.sample[:scanBytes]}, {"a transcript", transcript[:scanBytes]}} {
		times, err := contest{rounds: b.rounds, warm: true, entrants: []entrant{
			{name: "segno", run: func(context.Context) error {
				_, err := segno.Scan("text", bytes.NewReader(text.data))
				return err
			}},
			{name: "gitleaks", most: 2, run: func(context.Context) error { return gitleaks(text.data) }},
		}}.hold(ctx)
		if err != nil {
			return err
		}
		rate := func(s sample) float64 { return float64(len(text.data)) / 1e6 / s.median().Seconds() }
		b.add("", "scanner: gitleaks, "+text.name, times["gitleaks"], is(rate(times["gitleaks"]), "MB/s"))
		b.add("", "scanner: segno, "+text.name, times["segno"], atLeast(100, rate(times["segno"]), "MB/s"),
			is(times["gitleaks"].over(times["segno"]), "× as fast as gitleaks"))
	}
	return nil
}

// gitleaks scans a text in pieces that end with a line, because its time grows with the
// square of a piece's length.
func gitleaks(text []byte) error {
	d, err := detect.NewDetectorDefaultConfig()
	if err != nil {
		return err
	}
	for len(text) > 0 {
		n := min(len(text), 100<<10)
		if i := bytes.LastIndexByte(text[:n], '\n'); i >= 0 {
			n = i + 1
		}
		d.DetectBytes(text[:n])
		text = text[n:]
	}
	return nil
}
