package kvtest_test

import (
	"testing"
	"time"

	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
	"github.com/dalsegno/segno/store/storetest"
)

func TestMap(t *testing.T) {
	clock := storetest.NewClock()
	kvtest.Test(t, func(*testing.T) kv.KV { return kvtest.NewMap(clock.Now) }, kvtest.Options{
		Another: func(_ *testing.T, of kv.KV) kv.KV { return of },
		Pass:    func(_ *testing.T, _ kv.KV, d time.Duration) { clock.Advance(d) },
	})
}
