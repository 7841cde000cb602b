package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/millrace/millrace/cmd/millrace/internal/compare"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/internal/server/apiserver"
)

// fight is a field that two writers give their own values, in turns.
type fight struct {
	object, field string
	writers       [2]string
	values        [2]string
	times         int
	last          time.Time
}

// fewestTurns is how often a field must have gone back and forth.
const fewestTurns = 3

// FightsCommand is `millrace fights`.
func FightsCommand() *cobra.Command {
	within, limit := time.Hour, 1000
	c := &cobra.Command{
		Use: "fights", Args: cobra.NoArgs,
		Short: "Show writers that undo each other: fields that go back and forth between two of them",
		Long: "Show fields that two writers have set in turns, each to its own value, at least three times: such as a loop and a\n" +
			"pipeline that both want to say how many replicas there are. It looks at the newest changes of each kind.",
		Example: "  millrace fights\n  millrace fights --within 10m",
	}
	cluster := newFlags(c)
	c.Flags().DurationVar(&within, "within", within, "how far to look back")
	c.Flags().IntVar(&limit, "limit", limit, "how many changes of each kind to look at (1 to 1000)")
	c.RunE = flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error {
		if limit < 1 || limit > 1000 {
			return fmt.Errorf("--limit %d is not from 1 to 1000", limit)
		}
		client, err := connect(cluster)
		if err != nil {
			return err
		}
		found, err := cluster.ToDiscoveryClient()
		if err != nil {
			return err
		}
		_, lists, err := found.ServerGroupsAndResources()
		if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
			return err
		}
		var all []fight
		for _, collection := range collections(lists) {
			var changes apiserver.ChangeList
			err := read(ctx, client.Get().AbsPath("/history"+collection).Param("limit", strconv.Itoa(limit)), &changes)
			if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) { // not for this user, or not kept here
				continue
			}
			if err != nil {
				return fmt.Errorf("the changes of %s: %w", collection, err)
			}
			fights, err := fightsIn(changes.Items, time.Now().Add(-within))
			if err != nil {
				return err
			}
			all = append(all, fights...)
		}
		return printFights(c.OutOrStdout(), all)
	})
	return c
}

// collections returns the paths of all kinds that can be listed, each once.
func collections(lists []*metav1.APIResourceList) (all []string) {
	seen := map[string]bool{}
	for _, list := range lists {
		group, _, found := strings.Cut(list.GroupVersion, "/")
		prefix := "/apis"
		if !found {
			group, prefix = "", "/api"
		}
		for _, r := range list.APIResources {
			id := group + "/" + r.Name
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || seen[id] {
				continue
			}
			seen[id] = true
			all = append(all, path.Join(prefix, list.GroupVersion, url.PathEscape(r.Name)))
		}
	}
	return all
}

// turn is one change of a field.
type turn struct {
	writer, value string
	at            time.Time
}

// fightsIn finds the fields that go back and forth in changes of one kind, the oldest first.
func fightsIn(all []version, since time.Time) (fights []fight, err error) {
	byObject := map[string][]version{}
	for _, v := range all {
		id := v.Namespace + "/" + v.Name
		byObject[id] = append(byObject[id], v)
	}
	for _, versions := range byObject {
		turns := map[string][]turn{}
		err := eachDifference(versions, func(v *version, d compare.Difference) {
			turns[d.Path] = append(turns[d.Path], turn{actor(v), shortened(compare.Text(d.New)), v.Time})
		})
		if err != nil {
			return nil, err
		}
		for field, t := range turns {
			if f, ok := fought(t); ok && !f.last.Before(since) {
				f.object, f.field = named(&versions[0]), strings.TrimPrefix(field, ".")
				fights = append(fights, f)
			}
		}
	}
	return fights, nil
}

// fought reports whether the last changes of a field are a fight.
func fought(turns []turn) (f fight, ok bool) {
	n := len(turns)
	if n < 2 {
		return f, false
	}
	a, b := turns[n-2], turns[n-1]
	if a.writer == b.writer || a.value == b.value {
		return f, false
	}
	for i := n - 1; i >= 0; i-- {
		same := b
		if (n-1-i)%2 == 1 {
			same = a
		}
		if turns[i].writer != same.writer || turns[i].value != same.value {
			break
		}
		f.times++
	}
	f.writers, f.values, f.last = [2]string{a.writer, b.writer}, [2]string{a.value, b.value}, b.at
	return f, f.times > fewestTurns
}

// printFights prints fights, the newest first.
func printFights(out io.Writer, all []fight) (err error) {
	if len(all) == 0 {
		_, err = fmt.Fprintln(out, "No two writers undo each other.")
		return err
	}
	slices.SortFunc(all, func(a, b fight) int {
		return cmp.Or(b.last.Compare(a.last), strings.Compare(a.object+a.field, b.object+b.field))
	})
	for _, f := range all {
		_, e := fmt.Fprintf(out, "%s  %s\n    %s sets it to %s, %s to %s: %d times, last at %s\n", compare.Printable(f.object), compare.Printable(f.field),
			compare.Printable(f.writers[0]), compare.Printable(f.values[0]), compare.Printable(f.writers[1]), compare.Printable(f.values[1]), f.times, f.last.Local().Format(time.DateTime))
		err = errors.Join(err, e)
	}
	return err
}
