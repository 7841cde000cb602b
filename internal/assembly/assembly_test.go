package assembly

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// recorder notes what happens to parts, in order.
type recorder struct{ all []string }

func (r *recorder) note(what string) { r.all = append(r.all, what) }

// part is started and ended with notes. Its goroutine ends with its context.
func (r *recorder) part(name string) Part {
	return Func(func(_ context.Context, l *List) error {
		r.note("start " + name)
		l.Opened(name, func() error { r.note("close " + name); return nil })
		l.Run(name+"'s goroutine", func(ctx context.Context) error {
			<-ctx.Done()
			r.note("end " + name)
			return context.Cause(ctx)
		})
		return nil
	})
}

func TestPartsEndInTheReverseOrderOfTheirStart(t *testing.T) {
	r, l := &recorder{}, New(slog.New(slog.DiscardHandler))
	if err := l.Start(t.Context(), r.part("a"), r.part("b")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if want := []string{"start a", "start b", "end b", "close b", "end a", "close a"}; !slices.Equal(r.all, want) {
		t.Errorf("%q", r.all)
	}
	select {
	case err := <-l.Failed():
		t.Errorf("ending is no failure: %v", err)
	default:
	}
}

func TestAPartThatCannotStartEndsThoseBeforeItAndWhatItStarted(t *testing.T) {
	r, l := &recorder{}, New(slog.New(slog.DiscardHandler))
	broken := errors.New("broken")
	half := Func(func(ctx context.Context, l *List) error { return errors.Join(r.part("half").Start(ctx, l), broken) })
	never := Func(func(context.Context, *List) error { t.Error("a part after one that failed was started"); return nil })
	if err := l.Start(t.Context(), r.part("a"), half, never); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if want := []string{"start a", "start half", "end half", "close half", "end a", "close a"}; !slices.Equal(r.all, want) {
		t.Errorf("%q", r.all)
	}
}

func TestErrorsOfClosingAreReturnedAndKeepNothingFromEnding(t *testing.T) {
	r, l := &recorder{}, New(slog.New(slog.DiscardHandler))
	stuck := Func(func(_ context.Context, l *List) error {
		l.Opened("stuck", func() error { return errors.New("it sticks") })
		return nil
	})
	if err := l.Start(t.Context(), r.part("a"), stuck); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err == nil || err.Error() != "it sticks" {
		t.Errorf("%v", err)
	}
	if !slices.Contains(r.all, "close a") {
		t.Errorf("%q", r.all)
	}
}

func TestWhatEndsByItselfIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(slog.New(slog.DiscardHandler))
		for range 2 { // nobody reads the second one, which must not block
			l.Run("loops", func(context.Context) error { return errors.New("out of breath") })
		}
		synctest.Wait()
		if err := <-l.Failed(); err == nil || !strings.Contains(err.Error(), "loops ended: out of breath") {
			t.Errorf("%v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatDoesNotEndWithItsContextIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(slog.New(slog.DiscardHandler))
		stopped := make(chan struct{})
		l.Until("listener", func() { close(stopped) }, func(context.Context) error { <-stopped; return errors.New("closed") })
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		select {
		case err := <-l.Failed():
			t.Errorf("stopping is no failure: %v", err)
		default:
		}
	})
}
