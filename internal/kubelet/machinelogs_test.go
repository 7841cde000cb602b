package kubelet

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheMachinesLogsAreServedAndNothingElse(t *testing.T) {
	directory := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	for path, text := range map[string]string{filepath.Join(directory, "syslog"): "hello", outside: "secret"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(directory, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/logs/":                   {http.StatusOK, `<a href="syslog">`},
		"/logs/syslog":             {http.StatusOK, "hello"},
		"/logs/missing":            {http.StatusNotFound, ""},
		"/logs/link":               {http.StatusInternalServerError, ""},
		"/logs/../" + "etc/passwd": {http.StatusNotFound, ""},
	} {
		w := httptest.NewRecorder()
		machineLogs(directory)(w, httptest.NewRequest(http.MethodGet, "http://node"+path, nil))
		if w.Code != want.code || !strings.Contains(w.Body.String(), want.text) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
