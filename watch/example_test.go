package watch_test

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/watch"
)

// A stream is ranged over until it ends; here a fake one, as tests use.
func Example() {
	stream := watch.NewFake[string]()
	stream.Add("web")
	stream.Modify("web, now with more memory")
	stream.Delete("web")
	stream.End()
	for event, err := range watch.All(context.Background(), stream) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(event.Type, event.Object)
	}

	// Output:
	// ADDED web
	// MODIFIED web, now with more memory
	// DELETED web
}

// Until waits for a change that another client makes.
func ExampleUntil() {
	type job struct{ Succeeded int }
	stream := watch.NewFake[job]()
	stream.Add(job{})
	stream.Modify(job{Succeeded: 1})
	stream.Modify(job{Succeeded: 3})
	complete := func(event watch.Event[job]) (bool, error) { return event.Object.Succeeded == 3, nil }
	event, err := watch.Until(context.Background(), stream, complete)
	fmt.Println(event.Object.Succeeded, err)

	// Output:
	// 3 <nil>
}

// A broadcaster sends each event to every receiver. One that waits for slow receivers loses nothing.
func ExampleBroadcaster() {
	news := watch.NewBroadcaster[string](watch.BroadcasterOptions{WhenFull: watch.Wait})
	one, two := news.Watch(), news.Watch(watch.Event[string]{Type: watch.Added, Object: "what was there before"})
	_ = news.Send(context.Background(), watch.Event[string]{Type: watch.Added, Object: "something new"})
	news.Close()
	for _, receiver := range []watch.Stream[string]{one, two} {
		for event, err := range watch.All(context.Background(), receiver) {
			fmt.Println(event.Object, err)
		}
	}

	// Output:
	// something new <nil>
	// what was there before <nil>
	// something new <nil>
}
