package limit

import (
	"bytes"
	"compress/flate"
	"io"
	"strings"
	"testing"
)

func TestFeedGivesEveryFrameOnceInOrder(t *testing.T) {
	f := newFeed()
	at := f.end()
	if next, wake := f.after(at); next != nil {
		t.Fatal("a frame that nobody wrote")
	} else {
		f.append([]byte(`{"metadata":{"resourceVersion":"77","name":"a"}}`))
		<-wake
	}
	f.append([]byte(`{}`))
	first, _ := f.after(at)
	if got := string(first.bytes(false)); got != `{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"1","name":"a"}}}`+"\n" {
		t.Error(got)
	}
	second, _ := f.after(first)
	if second != f.end() {
		t.Error("the second is not the last")
	}
	text, err := io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(first.bytes(true)), bytes.NewReader(second.bytes(true)), strings.NewReader("\x03\x00"))))
	if err != nil || strings.Count(string(text), "\n") != 2 {
		t.Errorf("unpacked %q, %v", text, err)
	}
}

func TestListsHaveWhatIsAskedFor(t *testing.T) {
	s := &server{o: Options{Pods: 10}}
	s.setPod([]byte(`{"pod":1}`))
	if n := strings.Count(string(s.ready(3, "", false, false)), "pod"); n != 3 {
		t.Errorf("%d pods", n)
	}
	if b := s.ready(3, "5", false, false); !strings.Contains(string(b), `"continue":"5"`) {
		t.Errorf("no way on in %s", b)
	}
}
