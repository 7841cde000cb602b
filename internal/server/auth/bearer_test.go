package auth_test

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/server/auth"
)

func TestTokensAreReadFromBothHeaders(t *testing.T) {
	socket := func(token string) string {
		return "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token))
	}
	for _, c := range []struct {
		name, header, value string
		want                string
		given               bool
	}{
		{"nothing", "Accept", "*/*", "", false},
		{"a token", "Authorization", "Bearer abc", "abc", true},
		{"in small letters", "Authorization", "bearer abc", "abc", true},
		{"with blanks", "Authorization", "  Bearer   abc ", "abc", true},
		{"no token", "Authorization", "Bearer", "", true},
		{"a password", "Authorization", "Basic abc", "", false},
		{"a socket's", "Sec-WebSocket-Protocol", "v1, " + socket("abc"), "abc", true},
		{"a socket's that cannot be read", "Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.***", "", true},
		{"a socket without", "Sec-WebSocket-Protocol", "v1", "", false},
	} {
		r := &http.Request{Header: http.Header{}}
		r.Header.Set(c.header, c.value)
		if got, given := auth.Bearer(r); got != c.want || given != c.given {
			t.Errorf("%s: %q, %v", c.name, got, given)
		}
	}
}

func TestStaticTokensAreReadFromTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# a remark\nabc,alice,1,\"dev,ops\"\n def , bob, 2\n")
	f, err := auth.ReadTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := f.Holder(t.Context(), "abc", nil)
	if u := h.User; err != nil || u.Name != "alice" || u.UID != "1" || !u.In("dev") || !u.In("ops") {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := f.Holder(t.Context(), "abcd", nil); err != auth.ErrUnknownToken {
		t.Errorf("an unknown token: %v", err)
	}
	for _, text := range []string{"abc,alice\n", ",alice,1\n", "abc,,1\n", "\"abc\n"} {
		if write(text); text != "" {
			if _, err := auth.ReadTokenFile(path); err == nil {
				t.Errorf("%q is taken", text)
			}
		}
	}
}

func FuzzBearer(f *testing.F) {
	f.Add("Bearer abc", "base64url.bearer.authorization.k8s.io.YWJj, v1")
	f.Fuzz(func(t *testing.T, authorization, protocols string) {
		r := &http.Request{Header: http.Header{"Authorization": {authorization}, "Sec-Websocket-Protocol": {protocols}}}
		auth.Bearer(r)
		without := auth.Forget(r)
		if _, given := auth.Bearer(without); given {
			t.Errorf("a credential is left in %v", without.Header)
		}
	})
}
