package clients_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/randomly"
)

// victimVariable names the data directory of a cluster that this binary runs until it is killed. killsVariable says how
// often it is killed, if not twice.
const (
	victimVariable = "MILLRACE_VICTIM_DIRECTORY"
	killsVariable  = "MILLRACE_KILLS"
)

// runVictim runs a cluster and writes to it without end. It prints only what was acknowledged.
func runVictim(o millrace.Options) {
	o.Controllers, o.NoScheduler = []string{}, true
	c, err := millrace.Start(context.Background(), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	k, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	maps := k.CoreV1().ConfigMaps("default")
	var writers sync.WaitGroup
	var out sync.Mutex
	for i := range 8 {
		writers.Go(func() {
			name := fmt.Sprint("w", i)
			o, err := maps.Create(context.Background(), configMap(name, nil), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				o, err = maps.Get(context.Background(), name, metav1.GetOptions{})
			}
			for n := 1; err == nil; n++ {
				o.Data["k"] = strconv.Itoa(n)
				if o, err = maps.Update(context.Background(), o, metav1.UpdateOptions{}); err == nil {
					out.Lock()
					fmt.Println(name, n, o.ResourceVersion)
					out.Unlock()
				}
			}
			fmt.Fprintln(os.Stderr, err)
		})
	}
	writers.Wait()
}

// acknowledged is the last acknowledged write of each name.
type acknowledged struct{ value, version uint64 }

func TestKillingTheProcessLosesNothingThatWasAcknowledged(t *testing.T) {
	kills := 2
	if text := os.Getenv(killsVariable); text != "" {
		kills = must(strconv.Atoi(text))(t)
	}
	killAgainAndAgain(t, millrace.Options{Data: t.TempDir()}, kills)
}

func killAgainAndAgain(t *testing.T, o millrace.Options, kills int) {
	begin := randomly.Seed(t)
	random := rand.New(rand.NewPCG(begin, 0))
	for round := range kills {
		last := killInTheMiddle(t, o, 50+random.IntN(200))
		c := start(t, o)
		maps := clientset(t, c.Config()).CoreV1().ConfigMaps("default")
		for name, want := range last {
			got := must(maps.Get(t.Context(), name, metav1.GetOptions{}))(t)
			if version(t, got.ResourceVersion) < want.version || got.Data["k"] == "v" || version(t, got.Data["k"]) < want.value {
				t.Errorf("round %d: %s is %s at %s, but %d at %d was acknowledged", round, name, got.Data["k"], got.ResourceVersion, want.value, want.version)
			}
		}
		if len(last) != 8 {
			t.Errorf("round %d: %d writers were heard of", round, len(last))
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func killInTheMiddle(t *testing.T, o millrace.Options, writes int) map[string]acknowledged {
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), victimVariable+"="+o.Data)
	victim.Stderr = os.Stderr
	out := must(victim.StdoutPipe())(t)
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	last := map[string]acknowledged{}
	var killed atomic.Bool
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); seen++ {
		f := strings.Fields(lines.Text())
		if len(f) == 3 { // a kill may cut a line
			value, err1 := strconv.ParseUint(f[1], 10, 64)
			rev, err2 := strconv.ParseUint(f[2], 10, 64)
			if err1 == nil && err2 == nil {
				last[f[0]] = acknowledged{value, rev}
			}
		}
		if seen >= writes && len(last) == 8 && !killed.Swap(true) {
			if err := victim.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := victim.Wait(); err == nil || !killed.Load() {
		t.Fatalf("the victim ended by itself: %v", err)
	}
	return last
}
