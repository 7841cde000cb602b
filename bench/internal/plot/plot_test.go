package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// elements counts the elements of a document, which must be well formed.
func elements(t *testing.T, svg []byte) map[string]int {
	t.Helper()
	count := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatalf("not well formed: %v\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
			for _, a := range e.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("%s of %s is %s", a.Name.Local, e.Name.Local, a.Value)
				}
			}
		}
	}
}

func TestBarsShowEveryValueThatIsThere(t *testing.T) {
	c := Bars{Title: "CPU <each>", Unit: "µs", Series: []string{"a", "b"}, Groups: []Group{
		{Label: "create & get", Value: []float64{12, 340}, Low: []float64{10, 300}, High: []float64{14, 400}},
		{Label: "list", Value: []float64{5, math.NaN()}},
		{Label: "none", Value: []float64{0, math.NaN()}},
	}}
	if n := elements(t, c.SVG())["rect"]; n != 1+2+3 { // background, legend, bars
		t.Errorf("%d rectangles", n)
	}
	elements(t, Bars{Title: "empty"}.SVG())
	elements(t, Bars{Series: []string{"a"}, Groups: []Group{{Label: "one", Value: []float64{100}}}}.SVG())
}

func TestLinesShowEveryPoint(t *testing.T) {
	c := Lines{Title: "t", Lines: []Line{{Name: "a", X: []float64{1, 10, 100}, Y: []float64{3, 2, 1}}, {Name: "b", X: []float64{1, 10}, Y: []float64{3, math.NaN()}}}}
	if n := elements(t, c.SVG())["circle"]; n != 4 {
		t.Errorf("%d points", n)
	}
	elements(t, Lines{}.SVG())
}

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0123: "0.0123", 1: "1", 2.5: "2.5", 12.34: "12.3", 999: "999", 1234: "1234", 12345: "12.3k", 3.2e6: "3.2M", 7e9: "7G"} {
		if got := Short(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
