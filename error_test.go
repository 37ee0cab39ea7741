package segno_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/dalsegno/segno"
)

func TestKindOf(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want segno.Kind
		text string
	}{
		"nil":            {nil, segno.KindNone, "none"},
		"unclassified":   {errors.New("x"), segno.KindInternal, "internal"},
		"a kind":         {segno.NewError(segno.KindBusy, "commit", "", nil), segno.KindBusy, "busy"},
		"the outer kind": {segno.NewError(segno.KindIO, "commit", "", segno.NewError(segno.KindBusy, "", "", nil)), segno.KindIO, "io"},
		"the inner kind": {fmt.Errorf("x: %w", segno.NewError(segno.KindBusy, "", "", nil)), segno.KindBusy, "busy"},
		"a context":      {fmt.Errorf("x: %w", context.Canceled), segno.KindCancelled, "cancelled"},
		"a later kind":   {segno.NewError(99, "", "", nil), 99, "internal"},
	} {
		text, err := segno.KindOf(c.err).MarshalText()
		if got := segno.KindOf(c.err); got != c.want || string(text) != c.text || err != nil {
			t.Errorf("%s: kind %d %q, want %d %q", name, got, text, c.want, c.text)
		}
	}
	if got := segno.KindNone.String(); got != "no error" {
		t.Errorf("KindNone is %q", got)
	}
}
