package worldtest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// checkClock plays a script several times and compares every payload. Within a bubble the clock of
// the host begins in the year 2000, so a payload that depends on it differs.
func (c Config) checkClock(t *testing.T, script []step) error {
	playOnce := func(t *testing.T) (payloads []string, err error) {
		err = c.check(t.Context(), check{"Clock", func(r *run) error {
			w, seen, err := r.played(script)
			if err != nil {
				return err
			}
			s, err := w.Snapshot(r.ctx)
			payloads = append(seen, string(s.Document))
			return err
		}}, script)
		return payloads, err
	}
	compare := func(when string, want, got []string) error {
		if err := comparePayloads(script, want, got); err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		if a, b := want[len(script)], got[len(script)]; a != b {
			return fmt.Errorf("%s: the documents differ:\n%s\n%s", when, a, b)
		}
		return nil
	}
	first, err := playOnce(t)
	if err != nil {
		return err
	}
	for _, payload := range first {
		if found := wallClock(payload, time.Now()); found != "" {
			return fmt.Errorf("a payload has the time of the host, %s: %s", found, payload)
		}
	}
	second, err := playOnce(t)
	if err != nil {
		return err
	}
	if err := compare("a second run", first, second); err != nil || c.External {
		return err
	}
	var inside []string
	synctest.Test(t, func(t *testing.T) { inside, err = playOnce(t) })
	if err != nil {
		return err
	}
	return compare("a run in another year", first, inside)
}

// wallClock returns a date or a number in text that is a time close to now, or "".
func wallClock(text string, now time.Time) string {
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
