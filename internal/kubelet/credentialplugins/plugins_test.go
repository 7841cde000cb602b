package credentialplugins_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/credentialplugins"
)

// plugin is a program that notes each request, and answers with what the file "response" has.
const plugin = `#!/bin/sh
cat >> "$NOTES"
echo "$1 $EXTRA" >> "$NOTES"
[ ! -e "$NOTES.fails" ] || { echo told to fail >&2; exit 3; }
cat "$NOTES.response"
`

// world is a directory with one plugin.
type world struct {
	*testing.T
	directory, notes string
	options          credentialplugins.Options
}

const one = `
- name: toy
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.registry.example", "docker.io"]
  defaultCacheDuration: 1h
  args: [get]
  env: [{name: EXTRA, value: more}]
`

func newWorld(t *testing.T) *world {
	w := &world{T: t, directory: t.TempDir()}
	w.notes = filepath.Join(w.directory, "notes")
	t.Setenv("NOTES", w.notes)
	w.write("toy", plugin, 0o700)
	w.options = credentialplugins.Options{Config: filepath.Join(w.directory, "config.yaml"), Directory: w.directory}
	return w
}

func (w *world) write(name, text string, mode os.FileMode) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.directory, name), []byte(text), mode); err != nil {
		w.Fatal(err)
	}
}

func (w *world) load(providers string) (*credentialplugins.Plugins, error) {
	w.Helper()
	w.write("config.yaml", "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:"+providers, 0o600)
	return credentialplugins.Load(w.options)
}

func (w *world) respond(key, more string) {
	w.Helper()
	w.write("notes.response", fmt.Sprintf(`{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "cacheKeyType": %q, %s}`, key, more), 0o600)
}

// runs returns how often the plugin was run.
func (w *world) runs() int {
	text, _ := os.ReadFile(w.notes)
	return strings.Count(string(text), "get more\n")
}

const logins = `"auth": {"*.registry.example": {"username": "any", "password": "1"}, "a.registry.example": {"username": "a", "password": "2"},
	"a.registry.example/team": {"username": "team", "password": "3"}, "b.registry.example": {"username": "b", "password": "4"}}`

func users(p *credentialplugins.Plugins, pod *corev1.Pod, image string) string {
	var names []string
	for _, c := range p.Credentials(context.Background(), pod, image) {
		names = append(names, c.Username+":"+c.Password)
	}
	return strings.Join(names, " ")
}

func TestAPluginHasTheCredentialsOfARegistry(t *testing.T) {
	w := newWorld(t)
	p, err := w.load(one)
	if err != nil {
		t.Fatal(err)
	}
	w.respond("Registry", logins)
	pod := &corev1.Pod{}
	for _, c := range []struct {
		image, want string
		runs        int
	}{
		{"a.registry.example/team/web:1", "team:3 a:2 any:1", 1},
		{"a.registry.example/web@sha256:" + strings.Repeat("0", 64), "a:2 any:1", 1},
		{"b.registry.example/web", "b:4 any:1", 2},
		{"c.registry.example:5000/web", "", 2}, // the port is another one
		{"registry.example/web", "", 2},
		{"x.y.registry.example/web", "", 2},
		{"web:1", "", 3}, // of docker.io: the plugin is asked, and has nothing
	} {
		if got := users(p, pod, c.image); got != c.want || w.runs() != c.runs {
			t.Errorf("%s: %q after %d runs, want %q after %d", c.image, got, w.runs(), c.want, c.runs)
		}
	}
	text, err := os.ReadFile(w.notes)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"a.registry.example/team/web"}get more`; !strings.HasPrefix(string(text), want) {
		t.Errorf("the plugin was asked %s, want %s", text, want)
	}
}

func TestAnswersAreKeptAsThePluginSays(t *testing.T) {
	for _, c := range []struct {
		key, more string
		runs      int // for two images of a registry and one of another, each twice
	}{
		{"Image", logins, 3}, {"Registry", logins, 2}, {"Global", logins, 1}, {"Global", `"cacheDuration": "0s", ` + logins, 6}, {"Unknown", logins, 6},
	} {
		w := newWorld(t)
		p, err := w.load(one)
		if err != nil {
			t.Fatal(err)
		}
		w.respond(c.key, c.more)
		for range 2 {
			for _, image := range []string{"a.registry.example/x", "a.registry.example/y", "b.registry.example/x"} {
				if got := users(p, &corev1.Pod{}, image); (got == "") != (c.key == "Unknown") {
					t.Errorf("%s: %s: %q", c.key, image, got)
				}
			}
		}
		if got := w.runs(); got != c.runs {
			t.Errorf("%s, %s: the plugin was run %d times, want %d", c.key, c.more, got, c.runs)
		}
	}
}

func TestPullsAtTheSameTimeAskOnce(t *testing.T) {
	w := newWorld(t)
	p, err := w.load(one)
	if err != nil {
		t.Fatal(err)
	}
	w.respond("Image", logins)
	var pulls sync.WaitGroup
	for range 8 {
		pulls.Go(func() {
			if got := users(p, &corev1.Pod{}, "b.registry.example/x"); got != "b:4 any:1" {
				t.Errorf("got %q", got)
			}
		})
	}
	pulls.Wait()
	if got := w.runs(); got != 1 {
		t.Errorf("the plugin was run %d times", got)
	}
}

func TestAPluginThatFailsHasNothing(t *testing.T) {
	w := newWorld(t)
	p, err := w.load(one)
	if err != nil {
		t.Fatal(err)
	}
	for _, break1 := range []func(){
		func() { w.respond("Image", logins); w.write("notes.fails", "", 0o600) },
		func() { os.Remove(w.notes + ".fails"); w.write("notes.response", "no JSON", 0o600) },
		func() {
			w.write("notes.response", `{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1", "cacheKeyType": "Image", `+logins+`}`, 0o600)
		},
	} {
		break1()
		if got := users(p, &corev1.Pod{}, "b.registry.example/x"); got != "" {
			t.Errorf("got %q", got)
		}
	}
	w.respond("Image", logins)
	if got := users(p, &corev1.Pod{}, "b.registry.example/x"); got != "b:4 any:1" {
		t.Errorf("when it works again: %q", got)
	}
}

func TestAPluginGetsTheTokenOfAServiceAccount(t *testing.T) {
	for _, cache := range []string{"ServiceAccount", "Token"} {
		w := newWorld(t)
		tokens := 0
		w.options.Token = func(_ context.Context, pod *corev1.Pod, audience string) (string, error) {
			tokens++
			return fmt.Sprintf("%s-%s-%d", pod.Name, audience, tokens), nil
		}
		w.options.Account = func(_ context.Context, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
			a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: pod.Spec.ServiceAccountName, Annotations: map[string]string{"may": "x", "other": "y"}}}
			if a.Name == "good" {
				a.Annotations["must"] = "z"
			}
			return a, nil
		}
		p, err := w.load(one + `  tokenAttributes: {serviceAccountTokenAudience: aud, cacheType: ` + cache + `, requireServiceAccount: true,
    requiredServiceAccountAnnotationKeys: [must], optionalServiceAccountAnnotationKeys: [may]}
`)
		if err != nil {
			t.Fatal(err)
		}
		w.respond("Image", logins)
		pod := func(account string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{ServiceAccountName: account}}
		}
		for account, want := range map[string]string{"": "", "bad": "", "good": "b:4 any:1"} {
			if got := users(p, pod(account), "b.registry.example/x"); got != want {
				t.Errorf("account %q: %q", account, got)
			}
		}
		users(p, pod("good"), "b.registry.example/x")
		if got, want := w.runs(), map[string]int{"ServiceAccount": 1, "Token": 2}[cache]; got != want {
			t.Errorf("%s: the plugin was run %d times, want %d", cache, got, want)
		}
		text, _ := os.ReadFile(w.notes)
		if !strings.Contains(string(text), `"serviceAccountToken":"p-aud-`) || !strings.Contains(string(text), `"serviceAccountAnnotations":{"may":"x","must":"z"}`) {
			t.Errorf("the plugin was asked %s", text)
		}
	}
}

func TestAWrongConfigurationIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ from, to, want string }{
		{one, " []", "at least 1 item in plugins is required"},
		{"name: toy", "name: none", "plugin binary of \"none\""},
		{"name: toy", "name: ../toy", "name must be that of a file"},
		{"name: toy", "other: 1", "unknown field"},
		{"v1\n", "v2\n", "apiVersion must be"},
		{"defaultCacheDuration: 1h", "defaultCacheDuration: -1h", "must be greater than or equal to 0"},
		{"  defaultCacheDuration: 1h\n", "", "defaultCacheDuration is required"},
		{`["*.registry.example", "docker.io"]`, "[]", "at least 1 item in matchImages is required"},
		{`"docker.io"`, `"docker.io/*"`, "is no pattern for images"},
		{"args: [get]", "tokenAttributes: {serviceAccountTokenAudience: a, cacheType: b}", "cacheType must be"},
	} {
		if _, err := w.load(strings.Replace(one, c.from, c.to, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.to, err)
		}
	}
	if _, err := w.load(one + one); err == nil || !strings.Contains(err.Error(), "must be unique") {
		t.Errorf("twice the same: %v", err)
	}
	w.options.Config = filepath.Join(w.directory, "missing")
	if _, err := credentialplugins.Load(w.options); err == nil {
		t.Error("a missing file is read")
	}
}

func TestAConfigurationMayBeADirectory(t *testing.T) {
	w := newWorld(t)
	if _, err := w.load(one); err != nil {
		t.Fatal(err)
	}
	several := t.TempDir()
	text, err := os.ReadFile(w.options.Config)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a.yaml": string(text), "b.yml": strings.Replace(string(text), "name: toy", "name: toy2", 1), "c.txt": "nothing"} {
		if err := os.WriteFile(filepath.Join(several, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.write("toy2", plugin, 0o700)
	w.options.Config = several
	p, err := credentialplugins.Load(w.options)
	if err != nil {
		t.Fatal(err)
	}
	w.respond("Image", logins)
	if got := users(p, &corev1.Pod{}, "b.registry.example/x"); got != "b:4 any:1 b:4 any:1" {
		t.Errorf("two plugins have %q", got)
	}
}
