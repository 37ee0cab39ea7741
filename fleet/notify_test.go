package fleet

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dalsegno/segno/agent"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestEachPromptNotifiesWorkers sends a prompt after the answer to another one. A worker that is not notified would find it only when it
// polls. The queue limits the notifications of a process, by default to ten in a second.
func TestEachPromptNotifiesWorkers(t *testing.T) {
	r := newRig(t)
	config, err := pgx.ParseConfig(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	var notified atomic.Int64
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) {
		if strings.Contains(n.Payload, QueueOf("")) {
			notified.Add(1)
		}
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `LISTEN "`+r.schema+`.river_insert"`); err != nil {
		t.Fatal(err)
	}
	r.start(r.Worker(map[string]*agent.Agent{"support": r.agent()}))
	const prompts = 5
	for _, key := range []string{"1", "2", "3", "4", "5"}[:prompts] {
		r.send(Prompt{Thread: "t" + key, Text: "say hello", Key: key})
		r.await("t"+key, key, StateDone)
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil { // receives the notifications
		t.Fatal(err)
	}
	if n := notified.Load(); n < prompts {
		t.Errorf("workers were notified %d times about %d prompts", n, prompts)
	}
}
