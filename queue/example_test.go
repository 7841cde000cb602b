package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/queue"
)

func Example() {
	q := queue.New(queue.Options[string]{BaseDelay: time.Millisecond})
	q.Add("flour")
	q.Add("flour") // once is enough
	tries := 0
	err := q.Run(context.Background(), 1, func(_ context.Context, key string) error {
		if tries++; tries == 1 {
			fmt.Println(key, "fails")
			return errors.New("the wheel is stuck")
		}
		fmt.Println(key, "is ground after", q.NumRequeues(key), "failure")
		q.ShutDown()
		return nil
	})
	fmt.Println(err)
	// Output:
	// flour fails
	// flour is ground after 1 failure
	// <nil>
}
