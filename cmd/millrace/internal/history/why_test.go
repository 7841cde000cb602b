package history

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/internal/server/apiserver"
)

// follows writes a config map as a loop that a change of another has woken.
func (w *world) follows(name, value, of, revision string) string {
	w.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	config.Wrap(cause.Transport)
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	ctx := cause.With(w.t.Context(), cause.Cause{
		Loop: "copier", Key: "default/" + of, Changes: []cause.Change{cause.At("configmaps", "default", of, revision)}, Count: 3,
		Retry: true, Decision: "the copy is \x1b[31mold",
	})
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": value}}
	stored, err := maps.Update(ctx, m, metav1.UpdateOptions{})
	if err != nil {
		stored, err = maps.Create(ctx, m, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return stored.ResourceVersion
}

// inOrder checks that a text has parts in an order.
func inOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Fatalf("%q is missing, or not in its place:\n%s", part, text)
		}
		rest = after
	}
}

func TestWhyTellsTheStepsFromTheFirstToTheLast(t *testing.T) {
	w := newWorld(t)
	created := w.set("settings", "1")
	w.follows("copy", "1", "settings", created)
	revision := w.set("settings", "2")
	w.follows("copy", "2", "settings", revision)
	w.follows("other", "x", "copy", created) // which copy has never been

	inOrder(t, w.must(WhyCommand(), "", "cm/copy"), "admin with writer changed configmaps/settings in default", `~ data.key: "1" → "2"`,
		"+", "copier changed configmaps/copy in default  (after 3 changes, tried again)", "the copy is ?[31mold", `~ data.key: "1" → "2"`)
	inOrder(t, w.must(WhyCommand(), "", "cm/copy", "--at", revision), "created configmaps/settings", "copier created configmaps/copy")
	inOrder(t, w.must(WhyCommand(), "", "cm", "other"), "… the changes that the program names have not been made", "copier created configmaps/other")
	inOrder(t, w.must(WhyCommand(), "", "cm/settings", "--field", "data.key"), "admin with writer changed configmaps/settings")
	inOrder(t, w.must(WhyCommand(), "", "cm/settings", "--field", "metadata.name"), "admin with writer created configmaps/settings")
	inOrder(t, w.must(WhyCommand(), "", "cm/copy", "--blame"), `data.key: "2"`, "copier  because of configmaps/settings at "+revision+" and 2 more")
	var chain apiserver.CauseChain
	if out := w.must(WhyCommand(), "", "cm/copy", "-o", "json"); json.Unmarshal([]byte(out), &chain) != nil || len(chain.Items) != 2 {
		t.Errorf("the JSON is\n%s", out)
	}
	for _, args := range [][]string{{"cm/settings", "--field", "data.none"}, {"cm/never"}, {"cm"}, {"cm/copy", "--at", "yesterday"}, {"cm/copy", "--blame", "--field", "a"}} {
		if out, err := w.run(WhyCommand(), "", args...); err == nil {
			t.Errorf("%v: %s", args, out)
		}
	}
}

func TestEffectsAreATreeThatEndsWithTheTimeOfRest(t *testing.T) {
	w := newWorld(t)
	revision := w.set("settings", "1")
	copied := w.follows("copy", "1", "settings", revision)
	w.follows("copy-of-copy", "1", "copy", copied)
	w.follows("second", "1", "settings", revision)
	inOrder(t, w.must(EffectsCommand(), "", "cm/settings"), "created configmaps/settings", "  copier created configmaps/copy",
		"    copier created configmaps/copy-of-copy", "  copier created configmaps/second", "3 changes followed; the last came ")
	w.set("settings", "2")
	inOrder(t, w.must(EffectsCommand(), "", "cm/settings"), "changed configmaps/settings", "It has set off nothing.")
	inOrder(t, w.must(EffectsCommand(), "", "cm/settings", "--at", revision), "3 changes followed")
	var list apiserver.EffectList
	if out := w.must(EffectsCommand(), "", "cm/settings", "--at", revision, "-o", "json"); json.Unmarshal([]byte(out), &list) != nil || len(list.Items) != 4 {
		t.Errorf("the JSON is\n%s", out)
	}
}

func TestWhyGoesOnWithTheChangesThatCome(t *testing.T) {
	w := newWorld(t)
	w.set("settings", "1")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c := WhyCommand()
	out := &firstWords{wanted: "→ \"2\"", seen: stop}
	c.SetArgs([]string{"--kubeconfig", w.kubeconfig, "cm/settings", "--watch"})
	c.SetOut(out)
	c.SilenceUsage, c.SilenceErrors = true, true
	ended := make(chan error, 1)
	go func() { ended <- c.ExecuteContext(ctx) }()
	w.set("settings", "2")
	<-ended
	if !strings.Contains(out.text.String(), out.wanted) {
		t.Errorf("it told\n%s", out.text.String())
	}
}

// firstWords calls a function when something has been written.
type firstWords struct {
	text   strings.Builder
	wanted string
	seen   func()
}

func (f *firstWords) Write(b []byte) (int, error) {
	f.text.Write(b)
	if strings.Contains(f.text.String(), f.wanted) {
		f.seen()
	}
	return len(b), nil
}

func TestWritersThatUndoEachOtherAreFound(t *testing.T) {
	w := newWorld(t)
	last := w.set("settings", "1")
	for range 2 {
		w.follows("settings", "2", "settings", last)
		last = w.set("settings", "1")
	}
	for i := range 6 { // one writer who changes his mind is no fight
		w.set("alone", []string{"1", "2"}[i%2])
	}
	out := w.must(FightsCommand(), "")
	inOrder(t, out, "configmaps/settings in default  data.key", `copier sets it to "2", admin with writer to "1": 5 times`)
	if strings.Contains(out, "alone") {
		t.Errorf("a fight of one:\n%s", out)
	}
	if out := w.must(FightsCommand(), "", "--within", "1ns"); !strings.Contains(out, "No two writers") {
		t.Errorf("in the last nanosecond:\n%s", out)
	}
	if out, err := w.run(FightsCommand(), "", "--limit", "0"); err == nil {
		t.Errorf("no limit: %s", out)
	}
}
