package serverrig

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno/internal/testing/debian"
)

// PostgresPrograms makes pg_dump and psql available to this process and its children. It uses the system's
// programs if they are installed, else those of the server that [Postgres] starts.
func PostgresPrograms(ctx context.Context) error {
	if _, err := exec.LookPath("pg_dump"); err == nil {
		return nil
	}
	prog, err := debian.Find(ctx, postgresProgram())
	if err != nil {
		return err
	}
	for _, variable := range prog.Env() {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return os.Setenv("PATH", os.Getenv("PATH")+string(os.PathListSeparator)+filepath.Dir(prog.File))
}
