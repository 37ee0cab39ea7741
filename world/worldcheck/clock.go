package worldcheck

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Payloads plays a script in a new world. It returns the payload of each step and, as the last one, the
// document afterwards.
func Payloads(ctx context.Context, c Config, script []Step) (payloads []string, err error) {
	err = Check{"Payloads", func(r *run) error {
		w, seen, err := r.played(script)
		if err != nil {
			return err
		}
		s, err := w.Snapshot(r.ctx)
		payloads = append(seen, string(s.Document))
		return err
	}}.Run(ctx, c, script)
	return payloads, err
}

// Compare returns an error that names the first difference between the payloads of two runs of a script.
func Compare(script []Step, want, got []string) error {
	if err := comparePayloads(script, want, got); err != nil {
		return err
	}
	if a, b := want[len(script)], got[len(script)]; a != b {
		return fmt.Errorf("the documents differ:\n%s\n%s", a, b)
	}
	return nil
}

// checkClock plays a script twice and compares every payload. It also searches them for the time of the host.
func checkClock(r *run) error {
	first, err := Payloads(r.ctx, r.config, r.script)
	if err != nil {
		return err
	}
	for _, payload := range first {
		if found := HostTime(payload, time.Now()); found != "" {
			return fmt.Errorf("a payload has the time of the host, %s: %s", found, payload)
		}
	}
	second, err := Payloads(r.ctx, r.config, r.script)
	if err != nil {
		return err
	}
	if err := Compare(r.script, first, second); err != nil {
		return fmt.Errorf("a second run: %w", err)
	}
	return nil
}

// HostTime returns a date or a number in text that is a time close to now, or "".
func HostTime(text string, now time.Time) string {
	for _, day := range []time.Time{now.UTC(), now.Local()} {
		if date := day.Format(time.DateOnly); strings.Contains(text, date) {
			return date
		}
	}
	for _, number := range regexp.MustCompile(`[0-9]{10,19}`).FindAllString(text, -1) {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			continue
		}
		for _, at := range []time.Time{time.Unix(n, 0), time.UnixMilli(n), time.UnixMicro(n), time.Unix(0, n)} {
			if d := at.Sub(now); d.Abs() < time.Hour {
				return number
			}
		}
	}
	return ""
}
