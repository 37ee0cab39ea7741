package main

import (
	"context"
	"slices"
	"time"
)

// messageRounds is the number of timed batches per round of -n, and messageBatch the number
// of round trips in a batch: a trip takes only microseconds.
const (
	messageRounds = 10
	messageBatch  = 200
)

// messages measures the time that segno adds to a small message, compared with a process
// that only copies bytes.
func messages(ctx context.Context, b *bench) error {
	dir, home, err := b.small()
	if err != nil {
		return err
	}
	w, err := b.dial(ctx, dir, home)
	if err != nil {
		return err
	}
	all := []*wire{w.direct, w.relay, w.segno}
	echoes, err := trips(all, messageRounds*b.rounds, (*wire).echo)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := one.request("session/prompt", prompt("hold")); err != nil {
			return err
		}
	}
	heard, err := trips(all, messageRounds*b.rounds, (*wire).hear)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := one.release(); err != nil {
			return err
		}
	}
	b.addTrips("message: a request and its answer", echoes)
	b.addTrips("message: a notification and an update in a turn", heard)
	return w.close()
}

// release makes the parrot end the turn that it holds open.
func (w *wire) release() error {
	if _, err := w.in.Write([]byte(`{"jsonrpc":"2.0","method":"_x/release","params":{"sessionId":"` + parrotSession + `"}}` + "\n")); err != nil {
		return err
	}
	_, err := w.updates(func(int) error { return nil })
	return err
}

// trips times single round trips, in batches that alternate between the connections.
func trips(over []*wire, rounds int, trip func(*wire) error) ([]sample, error) {
	times := make([]sample, len(over))
	for round := -1; round < rounds; round++ {
		for k := range over {
			k = (k + round + 1) % len(over)
			for range messageBatch {
				start := time.Now()
				if err := trip(over[k]); err != nil {
					return nil, err
				}
				if took := time.Since(start); round >= 0 {
					times[k] = append(times[k], took)
				}
			}
		}
	}
	return times, nil
}

func (s sample) at(quantile float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[int(quantile*float64(len(sorted)-1))]
}

// addTrips reports round trips: direct, through the relay, through segno.
func (b *bench) addTrips(what string, times []sample) {
	direct, relay, segno := times[0], times[1], times[2]
	added := func(quantile float64) float64 { // two messages to a trip
		return 1000 * milliseconds(segno.at(quantile)-relay.at(quantile)) / 2
	}
	b.add("", what+", direct", direct)
	b.add("", what+", relayed", relay, is(1000*milliseconds(relay.median()-direct.median())/2, "µs a message over direct"),
		is(1000*milliseconds(relay.at(0.99)-direct.at(0.99))/2, "µs at the 99th percentile"))
	relays := milliseconds(relay.median() - direct.median())
	b.add("", what+", through segno", segno, atMost(0.6, milliseconds(segno.median()-relay.median())/relays, "× what the relay adds"),
		atMost(50, added(0.5), "µs a message over the relay"), is(added(0.99), "µs at the 99th percentile"))
}
