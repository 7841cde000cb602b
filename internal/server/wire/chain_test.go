package wire

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/deflate"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// objectOf returns an object as the cache would hold it.
func objectOf(t testing.TB, k *resource.Kind, o resource.Object, rev store.Revision) *watchcache.Object {
	t.Helper()
	stored, err := k.Encode(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	made, _ := watchcache.NewObject(watchcache.KindOptions{Prefix: "/registry/x/"}, store.Entry{Key: "/registry/x/" + o.GetName(), Value: stored, Revision: rev})
	return made
}

func TestFramesCompressedAgainstThePreviousOneAreOneGzipStream(t *testing.T) {
	k, r := kindNamed(t, "ConfigMap"), rand.New(rand.NewPCG(3, 4))
	gvk := k.Faces[0].GroupVersionKind
	long := make([]byte, 40_000) // longer than deflate can refer back
	for i := range long {
		long[i] = "abcdefghijklmnop"[r.IntN(16)]
	}
	var g deflate.Stream
	var want bytes.Buffer
	var last Frame
	out := g.AppendHead(nil)
	chained, size := 0, 0
	for i := range 300 {
		m := &corev1.ConfigMap{ObjectMeta: metaFor(fmt.Sprintf("settings-%d", i%7)), Data: map[string]string{"n": fmt.Sprint(i), "text": string(long[:r.IntN(3000)])}}
		if i%50 == 49 {
			m.Data["text"] = string(long)
		}
		f := Frame{watch.Modified, objectOf(t, k, m, store.Revision(i+1))}
		text, err := f.text(t.Context(), k, gvk)
		if err != nil {
			t.Fatal(err)
		}
		want.Write(text)
		before := len(out)
		switch {
		case last.Object == nil:
			out = g.AppendFlush(g.AppendText(out, text))
		default:
			b, ok, err := GzipChained(t.Context(), k, gvk, last, &watchcache.Event{Type: watchcache.Modified, Object: f.Object}, watch.Modified)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			out = g.AppendFlush(g.AppendBlock(out, b))
			chained, size = chained+1, size+len(out)-before
		}
		if last = f; i%20 == 19 {
			out = g.AppendText(out, []byte("something else\n"))
			want.WriteString("something else\n")
			last.Object = nil
		}
	}
	read, err := gzip.NewReader(bytes.NewReader(g.AppendEnd(out)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Fatalf("%d bytes came back, %d went in", len(got), want.Len())
	}
	t.Logf("%d bytes each, of %d", size/chained, want.Len()/300)
}

func TestFramesAfterDifferentOnesAreDistinguished(t *testing.T) {
	at := func(name string, rev store.Revision) *watchcache.Object {
		return &watchcache.Object{Key: name, Revision: rev}
	}
	f := Frame{watch.Modified, at("b", 7)}
	heads := map[string]string{}
	for name, pair := range map[string][2]Frame{
		"first":            {{watch.Modified, at("a", 5)}, f},
		"another object":   {{watch.Modified, at("c", 5)}, f},
		"another revision": {{watch.Modified, at("a", 6)}, f},
		"added before":     {{watch.Added, at("a", 5)}, f},
		"added itself":     {{watch.Modified, at("a", 5)}, {watch.Added, f.Object}},
	} {
		head := string(appendChainHead(nil, pair[0], pair[1]))
		if other, ok := heads[head]; ok || len(head) != chainHead {
			t.Errorf("%s and %s have the same head of %d bytes", name, other, len(head))
		}
		heads[head] = name
	}
}

func TestChainedListsDecompressToTheOriginal(t *testing.T) {
	k := kindNamed(t, "ConfigMap")
	var objects []*watchcache.Object
	for i := range 100 {
		m := &corev1.ConfigMap{ObjectMeta: metaFor(fmt.Sprintf("settings-%d", i)), Data: map[string]string{"n": fmt.Sprint(i)}}
		objects = append(objects, objectOf(t, k, m, store.Revision(i+1)))
	}
	var g deflate.Stream
	var want bytes.Buffer
	chain := ListChain{Kind: k, Between: []byte(",{")}
	out := g.AppendHead(nil)
	for i, o := range objects {
		form, err := JSON(t.Context(), k, o)
		if err != nil {
			t.Fatal(err)
		}
		want.WriteString(",{")
		want.Write(form)
		if i%10 == 0 {
			chain = ListChain{Kind: k, Between: chain.Between}
		}
		block, chained, err := chain.Next(t.Context(), o)
		if chained != (i%10 != 0) || err != nil {
			t.Fatal(chained, err)
		}
		if !chained {
			out = g.AppendText(out, chain.Between)
		}
		out = g.AppendBlock(out, block)
	}
	read, err := gzip.NewReader(bytes.NewReader(g.AppendEnd(out)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(read); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Fatalf("%d bytes came back, %d went in: %v", len(got), want.Len(), err)
	}
}
