package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

// A writer says which revision its new value is based on. If another writer was faster, the error carries the current
// entry, and the writer starts again from that.
func Example() {
	ctx := context.Background()
	s := memory.New(memory.Options{})
	defer s.Close()
	first, _ := s.Create(ctx, "/fruit/apple", []byte("green"), 0)
	second, _ := s.Update(ctx, "/fruit/apple", []byte("red"), first, 0)

	_, err := s.Update(ctx, "/fruit/apple", []byte("yellow"), first, 0)
	var conflict *store.ConflictError
	if errors.As(err, &conflict) {
		fmt.Printf("it is %s already\n", conflict.Current.Value)
	}

	enough := errors.New("enough")
	err = s.Watch(ctx, "/fruit/", first, func(b store.Batch) error {
		for _, e := range b.Events {
			fmt.Printf("%s became %s\n", e.Key, e.Value)
		}
		if b.Revision < second {
			return nil
		}
		return enough
	})
	fmt.Println(err)
	// Output:
	// it is red already
	// /fruit/apple became red
	// enough
}
