package loop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/loop"
)

func uidOf(name string) types.UID { return types.UID("uid-" + name) }

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func TestTheFirstErrorStopsAllRunnersAndIsReturnedAfterTheyHaveStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		stopped := false
		err := loop.Join(
			loop.Func(func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Minute)
				stopped = true
				return errors.New("later")
			}),
			loop.Func(func(context.Context) error { time.Sleep(time.Second); return broken }),
			loop.Func(func(context.Context) error { return nil }),
		).Run(t.Context())
		if !errors.Is(err, broken) || !stopped {
			t.Errorf("Join ended with %v, all stopped: %v", err, stopped)
		}
	})
}

func TestEveryCallsNowAndThenEachPeriodUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		err := loop.Every(10*time.Second, func(context.Context) error { calls++; return nil }).Run(ctx)
		if err != nil || calls != 4 {
			t.Errorf("%d calls, ended with %v; want 4 and nil", calls, err)
		}
		broken := errors.New("broken")
		if err := loop.Every(time.Second, func(context.Context) error { return broken }).Run(t.Context()); !errors.Is(err, broken) {
			t.Errorf("ended with %v, want its error", err)
		}
	})
}

func TestRunnersStopBeforeTheClientsTheyUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := loop.ClientsFor(fake.NewClientset())
		recorded := 0
		stop := background(t, loop.Func(func(ctx context.Context) error {
			return loop.Run(ctx, clients, loop.Func(func(ctx context.Context) error {
				<-ctx.Done()
				clients.Recorder.Eventf(pod("a"), "Normal", "Ending", "last words")
				return nil
			}))
		}))
		synctest.Wait()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for _, action := range clients.Kube.(*fake.Clientset).Actions() {
			if action.Matches("create", "events") {
				recorded++
			}
		}
		if recorded != 1 {
			t.Errorf("%d events of the ending runner written, want 1", recorded)
		}
	})
}

// journal is a list that many goroutines append to.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// want compares the list once all goroutines are blocked.
func (j *journal) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, lines) {
		t.Errorf("the journal says %q, want %q", j.lines, lines)
	}
}

func entries(ran *journal) []loop.Entry {
	entry := func(name string, aliases ...string) loop.Entry {
		return loop.Entry{Name: name, Aliases: aliases, New: func(*loop.Clients) (loop.Runner, error) {
			return loop.Func(func(ctx context.Context) error {
				ran.add(name)
				return untilDone(ctx)
			}), nil
		}}
	}
	off := entry("token-cleaner-controller", "tokencleaner")
	off.OffByDefault = true
	return []loop.Entry{entry("job-controller", "job"), entry("daemonset-controller", "daemonset"), off}
}

func TestSelectFollowsTheRulesOfTheControllersFlag(t *testing.T) {
	for words, want := range map[string]string{
		"":                      "job-controller daemonset-controller",
		"*":                     "job-controller daemonset-controller",
		"*,-job":                "daemonset-controller",
		"-job-controller,*":     "daemonset-controller",
		"*,tokencleaner":        "job-controller daemonset-controller token-cleaner-controller",
		"job":                   "job-controller",
		"-job":                  "",
		"job,-job":              "job-controller",
		"-job,job,*":            "daemonset-controller",
		"*,-tokencleaner":       "job-controller daemonset-controller",
		"nonsense":              `error: "nonsense" is not in the list of known controllers`,
		"*,-nonsense":           `error: "-nonsense" is not in the list of known controllers`,
		"job,,daemonset":        `error: "" is not in the list of known controllers`,
		"daemonset,job,-nobody": `error: "-nobody" is not in the list of known controllers`,
	} {
		var list []string
		if words != "" {
			list = strings.Split(words, ",")
		}
		selected, err := loop.Select(entries(new(journal)), list)
		names := namesInOrder(selected)
		if err != nil {
			names = "error: " + err.Error()
		}
		if names != want {
			t.Errorf("--controllers=%s gives %q, want %q", words, names, want)
		}
	}
	all, off := loop.Names(entries(new(journal)))
	if strings.Join(all, " ") != "daemonset-controller job-controller token-cleaner-controller" || !slices.Equal(off, []string{"token-cleaner-controller"}) {
		t.Errorf("names are %q, off by default %q", all, off)
	}
}

func namesInOrder(entries []loop.Entry) string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return strings.Join(names, " ")
}

func TestAGroupRunsTheSelectedLoopsAndNamesTheOneThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran journal
		var running []string
		group := &loop.Group{
			Clients: loop.ClientsFor(fake.NewClientset()), Entries: entries(&ran), Select: []string{"job"},
			Runs: func(name string, runs bool) { running = append(running, fmt.Sprint(name, " ", runs)) },
		}
		stop := background(t, group)
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		ran.want(t, "job-controller")
		if !slices.Equal(running, []string{"job-controller true", "job-controller false"}) {
			t.Errorf("loops run: %q", running)
		}
		group.Runs = nil

		broken := errors.New("broken")
		group.Entries = append(group.Entries, loop.Entry{Name: "bad", New: func(*loop.Clients) (loop.Runner, error) {
			return loop.Func(func(context.Context) error { return broken }), nil
		}}, loop.Entry{Name: "absent", New: func(*loop.Clients) (loop.Runner, error) { return nil, nil }})
		group.Select = []string{"*"}
		if err := group.Run(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "bad") {
			t.Errorf("ended with %v, want the error of bad by name", err)
		}
		group.Entries[0].New = func(*loop.Clients) (loop.Runner, error) { return nil, broken }
		if err := group.Run(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "job-controller") {
			t.Errorf("ended with %v, want the error of job-controller by name", err)
		}
	})
}
