package agent_test

import (
	"database/sql"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/sqlite"
)

// TestADamagedRowIsNoNewThread damages a thread's rows on the disk. A run reports
// the damage and leaves the rows unchanged.
func TestADamagedRowIsNoNewThread(t *testing.T) {
	for name, spoil := range map[string]string{
		"its newest entries": `UPDATE commits SET entries = substr(entries, 1, 20) WHERE n = (SELECT head FROM threads)`,
		"its first entries":  `UPDATE commits SET entries = x'0102' WHERE n = (SELECT min(n) FROM commits WHERE entries IS NOT NULL)`,
		"its checkpoint":     `UPDATE commits SET checkpoint = x'09' || substr(checkpoint, 2) WHERE n = (SELECT head FROM threads)`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := after(t, dir, order{})
			r.prompt("write a.txt: one\nread a.txt")
			rows := func(spoil string) (n int, size int64) {
				t.Helper()
				r.ok(r.store.Close())
				vfs, err := sqlite.VFS()
				r.ok(err)
				db, err := sql.Open("sqlite", storeFile(dir)+"?vfs="+vfs)
				r.ok(err)
				defer db.Close()
				if spoil != "" {
					if done, err := db.Exec(spoil); err != nil {
						t.Fatal(err)
					} else if n, err := done.RowsAffected(); n != 1 || err != nil {
						t.Fatalf("%d rows, %v", n, err)
					}
				}
				r.ok(db.QueryRow(`SELECT count(*), sum(length(entries)) + sum(length(checkpoint)) FROM commits`).Scan(&n, &size))
				return n, size
			}
			n, size := rows(spoil)
			store, err := sqlite.Open(t.Context(), storeFile(dir), sqlite.Options{})
			r.ok(err)
			r.store = store
			r.with(func(*agent.Config) {})
			r.refused(agent.Input{Prompt: "say hi"}, segno.KindCorrupt)
			r.refused(agent.Input{}, segno.KindCorrupt)
			_, err = r.agent.Status(r.ctx, thread)
			r.wants(err, segno.KindCorrupt)
			_, err = r.agent.Saver().Load(r.ctx, saver.ThreadKey{Thread: thread})
			r.wants(err, segno.KindCorrupt)
			if is, now := rows(""); is != n || now != size {
				t.Errorf("there were %d rows of %d bytes, and are %d of %d", n, size, is, now)
			}
		})
	}
}
