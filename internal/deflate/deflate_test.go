package deflate_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/deflate"
)

func TestBlocksAndTextMakeOneGzipStream(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s deflate.Stream
	var want bytes.Buffer
	out := s.AppendHead(nil)
	for i := range 200 {
		text := make([]byte, rng.IntN(5000))
		for j := range text {
			text[j] = "abcdefgh"[rng.IntN(8)]
		}
		want.Write(text)
		if i%3 == 0 {
			out = s.AppendText(out, text)
		} else {
			out = s.AppendBlock(out, deflate.Compress(text))
		}
	}
	big := bytes.Repeat([]byte("x"), 200_000)
	want.Write(big)
	out = s.AppendEnd(s.AppendText(out, big))
	if got := read(t, out); got != want.String() {
		t.Fatalf("%d bytes came back, %d went in", len(got), want.Len())
	}
}

func TestAReaderGetsEverythingThatWasFlushed(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	var s deflate.Stream
	pieces := s.AppendHead(nil)
	pieces = s.AppendText(pieces, []byte("head "))
	pieces = s.AppendBlock(pieces, deflate.Compress([]byte("block ")))
	pieces = s.AppendFlush(s.AppendText(pieces, []byte("tail")))
	go out.Write(pieces) // the stream is not ended
	r, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("head block tail"))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != "head block tail" {
		t.Errorf("%q, %v", got, err)
	}
}

// read unpacks a gzip stream, whose checksum and length the reader compares.
func read(t *testing.T, stream []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestAWriterMakesABlockOfAllThatIsWritten(t *testing.T) {
	w := deflate.NewWriter()
	for _, part := range []string{"first ", "", "second "} {
		io.WriteString(w, part)
	}
	block := w.Block()
	var s deflate.Stream
	out := s.AppendHead(nil)
	for range 2 {
		out = s.AppendBlock(out, block)
	}
	out = s.AppendBlock(out, deflate.NewWriter().Block())
	if got := read(t, s.AppendEnd(out)); got != "first second first second " {
		t.Errorf("%q came back", got)
	}
}

func TestTheChecksumOfTwoBlocksIsThatOfBothTexts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	text := make([]byte, 70_000)
	for i := range text {
		text[i] = byte(rng.Uint32())
	}
	for _, at := range []int{0, 1, 7, 4096, len(text) - 1, len(text)} {
		var s deflate.Stream
		out := s.AppendBlock(s.AppendBlock(s.AppendHead(nil), deflate.Compress(text[:at])), deflate.Compress(text[at:]))
		if got := read(t, s.AppendEnd(out)); got != string(text) {
			t.Errorf("parted at %d it is another text", at)
		}
	}
}

func FuzzStreamsAreReadAsTheirTexts(f *testing.F) {
	f.Add([]byte("a text"), []byte("another text, like a text"), uint8(5))
	f.Add([]byte{}, bytes.Repeat([]byte("x"), 70_000), uint8(0))
	f.Add(bytes.Repeat([]byte("0123456789"), 5000), []byte{0}, uint8(3))
	f.Fuzz(func(t *testing.T, first, second []byte, order uint8) {
		var s deflate.Stream
		out := s.AppendHead(nil)
		want := string(first) + string(second)
		switch order % 3 {
		case 0:
			out = s.AppendBlock(s.AppendBlock(out, deflate.Compress(first)), deflate.CompressAfter(second, first))
		case 1:
			out = s.AppendBlock(s.AppendText(out, first), deflate.Compress(second))
		case 2:
			w := deflate.NewWriter()
			w.Write(first)
			out = s.AppendFlush(s.AppendText(s.AppendBlock(out, w.Block()), second))
		}
		if order%2 == 0 {
			out, want = s.AppendBlock(out, deflate.Compress(first)), want+string(first)
		}
		if got := read(t, s.AppendEnd(out)); got != want {
			t.Errorf("%q came back, %q went in", got, want)
		}
	})
}
