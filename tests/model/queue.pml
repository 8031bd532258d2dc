/* The queue protocol of device/network/queue.h and post.h, for spin: every interleaving of a small queue
 * with several writers, a NIC and waits for completion. Run by tests/model/check.py, which also
 * checks that each mutation below (-D...) is refuted.
 *
 * Steps are those of queue.h: queue_reserve, queue_write, queue_publish, queue_ring, queue_poll,
 * queue_await, queue_quiet. post_now (post.h) differs: it asks with the reservation whether other
 * writers follow. That is a choice of the writer if there is room. One step is one access to shared
 * memory. Memory is sequentially consistent here: tests/model/store_buffer tests, with the code
 * itself, which fences and releases that requires.
 *
 * The model is smaller than the product in these points, for these reasons:
 *  - DEPTH 4 and BATCH 2 instead of 64 and 16 or more. QueueSet keeps batch + one reservation + the
 *    longest WQE <= depth. Here that sum is 6, so the product's rule is not met. The protocol needs
 *    less:
 *        (batch - 1) + reservation + (longest WQE - 1) <= depth,
 *    since at most batch - 1 published entries are without a doorbell, and of the last complete WQE
 *    all entries but the first count as not complete. Reservations and WQEs have at most 2 entries
 *    here: 1 + 2 + 1 = 4, met with nothing to spare. The product's rule implies it with 2 to spare,
 *    so its queues are never as tight as this one. With the next larger batch, 4, the model deadlocks
 *    (WIDE_BATCH).
 *  - Completions count modulo 16 instead of 2^16. The modulus is more than twice the depth, so a
 *    completion that is older than the base (STALE) looks as if it were ahead of every possible one.
 *    With START=14 the counter wraps after two entries.
 *  - Cursors are bytes that do not wrap in a run: 64-bit ones do not either.
 *  - Few posts, and either more writers or more posts, polls of one step or of two (SPLIT_POLL):
 *    the sets are in check.py. All of it at once is more than 10^9 states.
 *  - A failed poll is repeated only when it would see something new. That hides no behaviour, and
 *    makes a wait that can never end a deadlock, which spin detects by itself.
 *  - Writers are equal, so the model has only runs in which they reserve for the first time in the
 *    order of their numbers: every other run is one of these with the writers' names exchanged.
 *  - There are no errors (a failed queue ends all waits, which needs no protocol) and no exclusive
 *    queues (they have one writer at a time, so nothing interleaves).
 */
#ifndef DEPTH
#define DEPTH 4
#endif
#ifndef BATCH
#ifdef WIDE_BATCH
#define BATCH DEPTH
#else
#define BATCH 2
#endif
#endif
#ifndef WRITERS
#define WRITERS 3
#endif
#ifndef START
#define START 0 /* earlier entries, all complete */
#endif
#ifndef POSTS
#define POSTS 2 /* reservations of each writer */
#endif
#define MODULUS 16
#define NONE 255 /* no completion yet */

#ifdef ROOM_OFF_BY_ONE
#define ROOM(end) (end - DEPTH - 1)
#else
#define ROOM(end) (end - DEPTH)
#endif
/* PublishedWord: how many entries there are, and how many of them the last WQE has. */
#ifdef LAST_WQE_FORGOTTEN
#define WORD(end) (end * 4 + 1)
#else
#define WORD(end) (end * 4 + (kind == 2 -> 2 : 1))
#endif
#define END(word) (word / 4)
#define TARGET(word) (word / 4 - word % 4 + 1)
/* The result of a poll that reads `from` and `count`: nothing new if that is impossible. */
#define AHEAD(from, count) ((count + 1 + MODULUS - from % MODULUS) % MODULUS)
#ifdef STALE_BELIEVED
#define STALE
#endif
#if defined(STALE_BELIEVED) || defined(COUNTER_BEFORE_BASE)
#define CAN_BE(ahead) true
#else
#define CAN_BE(ahead) (ahead <= DEPTH)
#endif
#define FOUND(from, count) \
  ((count != NONE && CAN_BE(AHEAD(from, count))) -> from + AHEAD(from, count) : from)
/* A poll may see the completion before the newest one. */
#ifdef STALE
#define ONE_STEP atomic
#define READ_COMPLETION if :: counter = completion :: counter = older fi
#else
#define ONE_STEP d_step
#define READ_COMPLETION counter = completion
#endif

/* Cursors, as in abi/queue.h. */
byte reserved, ready, done;
byte record, doorbell;
byte completion = NONE; /* of the collapsed CQ: first entry of the newest WQE, modulo MODULUS */
#ifdef STALE
byte older = NONE; /* its previous value */
#endif

/* A slot of the ring: its entry (1 + index, 0 = none yet), the length of the WQE that begins there
 * (0: none does), and whether it requests a completion. */
typedef Slot {
  byte entry;
  byte length;
  bit signalled;
}
Slot slot[DEPTH];

/* State that only the properties use. */
byte consumed;  /* entries whose WQE is complete */
byte reported;  /* 1 + first entry of the newest WQE that the CQ reported */
byte finished;  /* writers at their end */
byte begun;     /* writers that have reserved */
bit by_record;  /* this NIC also reads the doorbell record unasked */

/* Entry `i` is stored. */
inline store_entry(i, size, ask) {
  assert(i < DEPTH || consumed > i - DEPTH); /* no entry is overwritten that the NIC may read */
  slot[(i) % DEPTH].entry = i + 1;
  slot[(i) % DEPTH].length = size;
  slot[(i) % DEPTH].signalled = ask
}

/* The NIC may now read all entries before `end`. */
inline check_written(end) {
  assert(end - consumed <= DEPTH);
  k = consumed;
  do
  :: k < end -> assert(slot[k % DEPTH].entry == k + 1); k++
  :: else -> break
  od;
  k = 0
}

/* This is one step: these entries are not read until they are published, and the assertion stays true
 * once it holds. */
inline write_all() {
  d_step {
    if
    :: kind == 1 -> store_entry(first, 1, 1)
    :: kind == 2 -> store_entry(first, 2, 1); store_entry(first + 1, 0, 0) /* one WQE of two */
    :: kind == 3 -> /* two WQEs */
#ifdef UNSIGNALLED_TAIL
      store_entry(first, 1, 1); store_entry(first + 1, 1, 0)
#else
      store_entry(first, 1, 0); store_entry(first + 1, 1, 1)
#endif
    fi
  }
}

inline ring(end) {
  d_step {
    assert(end > record);
    check_written(end);
    record = end
  }
  d_step {
    assert(end > doorbell && end <= record);
    check_written(end);
    doorbell = end
  }
}

/* queue_poll: base and counter together, which are never more than the NIC has reported. */
inline judge() {
  seen = FOUND(base, counter);
  assert(seen <= reported)
}

/* queue_await: WQEs that begin before `goal` are complete. */
inline wait_for(goal) {
  do
  ::
#if defined(SPLIT_POLL) || defined(COUNTER_BEFORE_BASE)
#ifdef COUNTER_BEFORE_BASE
    counter = completion;
    d_step { base = done; judge() }
#else
    base = done;
    d_step { counter = completion; judge() }
#endif
    d_step { if :: seen > done -> done = seen :: else fi }
    if
    :: seen >= goal -> break
    :: else -> (completion != counter || done != base)
    fi
#else
    ONE_STEP {
      (FOUND(done, completion) > done || done >= goal);
      base = done; READ_COMPLETION; judge();
      if :: seen > done -> done = seen :: else fi
    }
    if
    :: seen >= goal -> break
    :: else
    fi
#endif
  od;
  atomic { base = 0; counter = 0; seen = 0 }
}

inline reserve() {
  atomic {
    (posts > 1 || begun == turn); /* the first time, in the order of their numbers */
    if :: posts == 1 -> begun++ :: else fi;
    if
    :: kind = 1; end = reserved + 1
    :: kind = 2; end = reserved + 2
    :: kind = 3; end = reserved + 2
    fi;
    first = reserved;
    reserved = end
  };
  if /* the short path asks at once, the long one in its turn */
  :: atomic { behind = (reserved != end); asked = 1 }
  :: skip
  fi
}

inline room() {
  if
  :: end <= DEPTH
  :: else ->
    if
    :: done >= ROOM(end)
    :: else -> atomic { asked = 0; behind = 0 }; wait_for(ROOM(end))
    fi
  fi
}

inline publish() {
  END(ready) == first;
#ifdef RING_AFTER_READY
  ready = WORD(end);
#endif
  if
  :: asked
  :: else -> behind = (reserved != end)
  fi;
  if
#ifdef NO_BATCH_RULE
  :: !behind -> ring(end)
#else
  :: !behind || first / BATCH != end / BATCH -> ring(end)
#endif
  :: else
  fi;
#ifndef RING_AFTER_READY
  ready = WORD(end);
#endif
  atomic { asked = 0; behind = 0; first = 0; end = 0; kind = 0 }
}

/* Everything published before the call is complete when it returns. */
inline quiet() {
  end = ready;
  if
  :: end == 0
  :: else ->
#ifdef QUIET_READS_TWICE
    first = END(end) - ready % 4 + 1;
#else
    first = TARGET(end);
#endif
    wait_for(first);
    assert(consumed >= END(end))
  fi;
  atomic { first = 0; end = 0 }
}

/* Posts several times, with or without waits in between, then waits. */
proctype Writer(byte turn) {
  byte first, end, kind, base, counter, seen, k, posts;
  bit behind, asked;
  do
  :: posts < POSTS ->
    posts++;
    reserve();
    room();
#ifdef RING_BEFORE_WRITE
    ring(end);
#endif
    write_all();
    publish();
#ifdef QUIETS
    if
    :: quiet()
    :: skip
    fi
#endif
  :: else -> break
  od;
#ifndef NO_QUIETS
  quiet();
#endif
  atomic { posts = 0; finished++ }
}

/* Consumes WQEs in order, as soon as it may or later, and reports those that request it. */
proctype Nic() {
  byte at;
  do
  :: consumed < doorbell || (by_record && consumed < record) ->
    d_step {
      at = consumed % DEPTH;
      assert(slot[at].entry == consumed + 1 && slot[at].length > 0);
      if
      :: slot[at].signalled ->
#ifdef STALE
        older = completion;
#endif
        completion = consumed % MODULUS; reported = consumed + 1
      :: else
      fi;
      consumed = consumed + slot[at].length;
      at = 0
    }
  :: finished == WRITERS && consumed == reserved -> break /* no entry is left without a doorbell */
  od
}

init {
  byte i;
  atomic {
    reserved = START; done = START; record = START; doorbell = START;
    consumed = START; reported = START;
    if :: START > 0 -> ready = START * 4 + 1; completion = (START - 1) % MODULUS :: else fi;
    if :: by_record = 0 :: by_record = 1 fi;
    run Nic();
    for (i : 1 .. WRITERS) { run Writer(i - 1) }
  }
}
