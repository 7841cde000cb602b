package wire

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"testing"
)

func TestBlocksAndTextMakeOneGzipStream(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var g Gzip
	var want bytes.Buffer
	out := g.AppendHead(nil)
	for i := range 200 {
		text := make([]byte, rng.IntN(5000))
		for j := range text {
			text[j] = "abcdefgh"[rng.IntN(8)]
		}
		want.Write(text)
		if i%3 == 0 {
			out = g.AppendText(out, text)
		} else {
			out = g.AppendBlock(out, Compress(text))
		}
	}
	big := bytes.Repeat([]byte("x"), 200_000)
	want.Write(big)
	out = g.AppendEnd(g.AppendText(out, big))
	r, err := gzip.NewReader(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Fatalf("%d bytes came back, %d went in", len(got), want.Len())
	}
}

func TestAReaderGetsEverythingThatWasFlushed(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	var g Gzip
	pieces := g.AppendHead(nil)
	pieces = g.AppendText(pieces, []byte("head "))
	pieces = g.AppendBlock(pieces, Compress([]byte("block ")))
	pieces = g.AppendFlush(g.AppendText(pieces, []byte("tail")))
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
