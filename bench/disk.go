package main

import (
	"context"
	"os"
	"time"
)

// disk is the yardstick of everything that must be durable: append 24 KiB, which
// is what a usual commit of the journal writes, and sync.
type disk struct {
	file *os.File
	page []byte
}

func openDisk(path string) (*disk, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	page := make([]byte, 24<<10)
	for i := range page {
		page[i] = byte(i * 7)
	}
	return &disk{f, page}, nil
}

// syncs takes the time of n of them.
func (d *disk) syncs(n int) (time.Duration, error) {
	start := time.Now()
	for range n {
		if _, err := d.file.Write(d.page); err != nil {
			return 0, err
		}
		if err := datasync(d.file); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// diskRest is how long a disk is left alone before a sync that is measured as one
// of a program that syncs now and then: the first after a few milliseconds takes
// two or three times as long as one of many.
const diskRest = 5 * time.Millisecond

// rested takes the median time of a sync after rest.
func (d *disk) rested(ctx context.Context) (time.Duration, error) {
	var took [5]time.Duration
	for i := range took {
		select {
		case <-time.After(diskRest):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		var err error
		if took[i], err = d.syncs(1); err != nil {
			return 0, err
		}
	}
	return median(took[:]), nil
}

func (d *disk) close() error { return d.file.Close() }
