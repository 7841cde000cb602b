package watchcache_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace/millrace/internal/server/store/memory"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// A watch is a place in the history: its owner reads until there is no event left, then sleeps until there is one.
func Example() {
	s := memory.New(memory.Options{})
	defer s.Close()
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cache := watchcache.New(s, watchcache.Options{})
	fruit, err := cache.Add(watchcache.KindOptions{Name: "fruit", Prefix: "/registry/fruit/"})
	if err != nil {
		fmt.Println(err)
		return
	}
	running.Go(func() { _ = cache.Run(ctx) }) // until ctx ends
	if err := cache.WaitReady(ctx); err != nil {
		fmt.Println(err)
		return
	}

	before, watch, err := fruit.WatchFromNow(watchcache.All())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer watch.Close()
	if _, err := s.Create(ctx, "/registry/fruit/apple", []byte("green"), 0); err != nil {
		fmt.Println(err)
		return
	}
	event, ok, err := watch.Next()
	for !ok && err == nil {
		<-watch.Wake()
		event, ok, err = watch.Next()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s is %s\n", event.Object.Name(), event.Object.Value())
	fmt.Println(before.Len(), "before,", fruit.Snapshot().Len(), "now")
	// Output:
	// apple is green
	// 0 before, 1 now
}
