package etcd

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestErrorsOfTheClientAreLoggedWithTheirFields(t *testing.T) {
	var said bytes.Buffer
	log := newZap(slog.New(slog.NewTextHandler(&said, nil)))
	log.Warn("retrying")
	log.With(zap.String("endpoint", "a")).Error("it is lost", zap.Error(errors.New("the cause")))
	if got := said.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=ERROR msg="it is lost" endpoint=a error="the cause" component=etcd`) {
		t.Errorf("it says %q", got)
	}
}
