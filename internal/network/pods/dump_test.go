//go:build linux

package pods

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestAListThatChangedMeanwhileIsAskedForAgain(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name    string
		answers []error
		asked   int
		want    error
	}{
		{"whole", []error{nil}, 1, nil},
		{"interrupted twice", []error{netlink.ErrDumpInterrupted, netlink.ErrDumpInterrupted, nil}, 3, nil},
		{"broken", []error{broken, nil}, 1, broken},
		{"never whole", slices.Repeat([]error{netlink.ErrDumpInterrupted}, 2*dumpAttempts), dumpAttempts, netlink.ErrDumpInterrupted},
	} {
		asked := 0
		got, err := complete(func() ([]int, error) {
			asked++
			return []int{asked}, c.answers[asked-1]
		})
		if asked != c.asked || !errors.Is(err, c.want) || !slices.Equal(got, []int{asked}) {
			t.Errorf("%s: asked %d times for %v, %v, want %d times and %v", c.name, asked, got, err, c.asked, c.want)
		}
	}
}
