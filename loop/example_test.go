package loop_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/loop"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pods := informer.New(informertest.NewSource(pod("wheel")), informer.Options[*corev1.Pod]{})
	hello := &loop.Loop{
		Name:    "hello",
		Watches: []loop.Watch{loop.Self(pods)},
		Sync: func(_ context.Context, key loop.Key) (loop.Result, error) {
			_, exists := pods.Lookup(key)
			fmt.Println(key, "exists:", exists)
			cancel()
			return loop.Result{}, nil
		},
	}
	fmt.Println(loop.Join(pods, hello).Run(ctx))
	// Output:
	// ns/wheel exists: true
	// <nil>
}

// An entry is how a package offers its loop; a list of entries is all that has
// to be changed to add one.
func ExampleGroup() {
	entry := loop.Entry{
		Name:    "hello-controller",
		Aliases: []string{"hello"},
		New: func(c *loop.Clients) (loop.Runner, error) {
			return loop.Func(func(context.Context) error { fmt.Println("hello"); return nil }), nil
		},
	}
	group := &loop.Group{Clients: &loop.Clients{}, Entries: []loop.Entry{entry}, Select: []string{"*", "-hello"}}
	fmt.Println("without:", group.Run(context.Background()))
	group.Select = nil
	fmt.Println("with:", group.Run(context.Background()))
	// Output:
	// without: <nil>
	// hello
	// with: <nil>
}
