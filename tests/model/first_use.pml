/* Connections on first use (transport/nic/first_use.h, queue_connect of device/network/queue.h), for spin:
 * two PEs, writers of each that post to the other for the first time, the thread of each PE that
 * connects queues, and the messages between these threads. Run by tests/model/check.py, which also
 * checks that each mutation below (-D...) is refuted.
 *
 * One step is one access to shared memory, one message, or one call of QueueSet, which holds a lock.
 * A message is pending until FirstUse::take has rung for it. Memory is sequentially consistent here.
 * But a load through a GPU's cache may find that a view has no number when it has one.
 *
 * The model is smaller than the product in these points, for these reasons:
 *  - There are two PEs, because the thread handles each pair independently. A second context stands
 *    for what pairs share.
 *  - A thread sleeps until it is woken, without the time limit of FirstUse::run: the limit would hide
 *    a lost wake-up.
 *  - Messages are taken one by one, not all that have arrived: these are more interleavings.
 *  - There is no connection to the PE itself, because it sends no message.
 *  - Writers use the queues in turn, those of PE 1 from the last one on, or do not post at all.
 *  - Only writers ring and wake in two steps. All others do it in one.
 *  - A failure is the death of PE 1 at any step (DEATH), or one command of either NIC that fails
 *    (REFUSAL). Another process delivers the news of it to the other PE, at any later step. The
 *    actions of a dead PE do not matter, except that its messages no longer arrive.
 */
#ifndef WRITERS
#define WRITERS 1 /* writers of PE 0 */
#endif
#ifndef OTHERS
#define OTHERS 1 /* writers of PE 1 */
#endif
#ifndef QUEUES
#define QUEUES 1 /* queues of a context to the other PE */
#endif
#ifndef CONTEXTS
#define CONTEXTS 1
#endif
#define ALL (CONTEXTS * QUEUES)
#define PAIR(pe, context) ((pe) * CONTEXTS + (context))
#define QUEUE(pe, queue) ((pe) * ALL + (queue))

mtype = { nothing, offered, connected, released, offer, answer, confirm };

/* Memory of a PE: abi::FirstUse of its queues, their numbers in views, Control::asked. */
bit asked[2 * ALL];
byte number[2 * ALL], view[2 * ALL];
bit bell[2];
bit asleep[2]; /* the thread waits in the futex */
bit stop[2];
chan inbox[2] = [4 * CONTEXTS] of { mtype, byte, byte }; /* to the PE: kind, context, queues */
byte coming[2]; /* messages in it that were not rung for yet */
bit fault[2];
bit dead[2];

/* State that only the properties use. */
byte created[2 * CONTEXTS]; /* times that queues were made */
bit answers[2 * CONTEXTS];  /* this end of them is connected */
bit failed;                 /* there was a failure, so calls may end with an error */
byte finished[2];           /* writers */

/* The queues that a PE has made, as a message describes them. */
#define MADE(pe, context) (1 + PAIR(pe, context) * 4 + created[PAIR(pe, context)])

inline wake(pe) {
#ifdef WAKE_BEFORE_BELL
  asleep[pe] = 0;
  bell[pe] = 1
#else
  bell[pe] = 1;
  asleep[pe] = 0
#endif
}

/* A thread of device code: post_now, post_reserved, queue_connect. */
proctype Writer(bit me; byte queue) {
  byte found;
  if
  :: queue = QUEUE(me, queue)
  :: goto over /* posts nothing */
  fi;
  atomic { if :: found = view[queue] :: found = 0 fi }; /* layout() */
  if
  :: found != 0
  :: else ->
    if
    :: view[queue] != 0 /* number(): memory */
    :: else ->
#ifdef BELL_BEFORE_QUESTION
      bell[me] = 1; asked[queue] = 1; asleep[me] = 0;
#else
      asked[queue] = 1;
      wake(me);
#endif
#ifdef FAULT_NOT_SEEN
      number[queue] != 0;
#else
      (number[queue] != 0 || fault[me]);
#endif
      if
      :: atomic { number[queue] != 0 -> view[queue] = number[queue] }
      :: atomic { number[queue] == 0 -> assert(failed); goto over }
      fi
    fi;
    /* step_write, of all threads of the group */
#ifndef CACHE_BELIEVED
    found = view[queue]
#endif
  fi;
  atomic {
    assert(found == queue % ALL % QUEUES + 1); /* an entry has the number of its queue */
    found = queue % ALL / QUEUES;
    assert(answers[PAIR(0, found)] && answers[PAIR(1, found)])
  };
over:
  atomic { found = 0; queue = 0; finished[me]++ }
}

/* Decides whether the NIC refuses a call of QueueSet. */
#ifdef REFUSAL
#define COMMAND \
  if \
  :: true \
  :: atomic { !failed -> failed = 1; fault[me] = 1; goto serve } \
  fi;
#else
#define COMMAND
#endif

inline create() {
  COMMAND
  atomic {
    created[PAIR(me, context)]++;
    assert(created[PAIR(me, context)] == 1 || failed) /* one connection */
  }
}

/* Connects to the queues that the message describes. */
inline connect() {
  COMMAND
  atomic {
    assert(failed || (!answers[PAIR(me, context)] && theirs == MADE(1 - me, context) && created[PAIR(me, context)] > 0));
    answers[PAIR(me, context)] = 1
  }
}

inline send(kind) {
  atomic {
    if
    :: dead[me]
    :: else -> coming[1 - me]++; inbox[1 - me]!kind, context, MADE(me, context)
    fi
  }
}

inline release() {
  do
  :: i < QUEUES -> atomic { number[QUEUE(me, context * QUEUES + i)] = 1 + i; i++ }
  :: i == QUEUES -> i = 0; break
  od
}

/* FirstUse::read */
inline read() {
  if
  :: kind == offer && stage[context] == nothing ->
    create();
#ifdef ANSWER_BEFORE_CONNECT
    send(answer);
    connect();
    stage[context] = connected
#else
    connect();
    stage[context] = connected;
    send(answer)
#endif
#ifdef ANSWER_RELEASES
    ; release()
#endif
#if defined(CROSSED_OFFER_IGNORED)
  :: kind == offer && stage[context] == offered -> skip
#elif defined(CROSSED_OFFER_MAKES_MORE)
  :: kind == offer && stage[context] == offered ->
    create(); connect(); stage[context] = connected; send(answer)
#else
  :: kind != confirm && stage[context] == offered ->
    connect();
    stage[context] = connected;
    send(confirm);
    if
#ifdef CROSSED_OFFER_RELEASES
    :: skip ->
#else
    :: kind == answer ->
#endif
      release(); stage[context] = released
    :: else
    fi
#endif
#ifdef CROSSED_OFFER_RELEASES
  :: kind == confirm && stage[context] == released -> skip
#endif
  :: kind == confirm && stage[context] == connected ->
    release(); stage[context] = released
  :: else -> assert(failed) /* an impossible message */
  fi
}

#define ASKED(pe, queue) (asked[QUEUE(pe, queue)] && number[QUEUE(pe, queue)] == 0)
#define WANTED(pe, context) (ASKED(pe, (context) * QUEUES) || ASKED(pe, (context) * QUEUES + QUEUES - 1))
#ifdef STAGE_NOT_LOOKED_AT
#define NEW(context) true
#else
#define NEW(context) (stage[context] == nothing)
#endif

/* FirstUse::run of one PE. */
proctype Thread(bit me) {
  byte context, theirs, i;
  mtype kind;
  bit rung;
  mtype stage[CONTEXTS] = nothing;
  do
  :: stop[me] -> break
  :: else ->
    atomic { rung = bell[me]; bell[me] = 0 };
    if
    :: rung ->
serve:
      rung = 0;
      do
      :: inbox[me]?kind, context, theirs ->
        read();
        atomic { context = 0; theirs = 0; kind = 0 }
#ifdef MESSAGES_OVERTAKE
      :: atomic { len(inbox[me]) > 1 -> inbox[me]?kind, context, theirs; inbox[me]!kind, context, theirs }
#endif
      :: len(inbox[me]) <= coming[me] -> break /* the rest is pending */
      od;
      do /* QueueSet::asked */
      :: context < CONTEXTS ->
        if
        :: WANTED(me, context) && NEW(context) ->
          stage[context] = offered;
          create();
          send(offer)
        :: else
        fi;
        context++
      :: context == CONTEXTS -> context = 0; break
      od
    :: else ->
#ifdef SLEEP_WITHOUT_LOOK
      asleep[me] = 1;
#else
      atomic { asleep[me] = !bell[me] };
#endif
      !asleep[me]
    fi
  od
}

/* FirstUse::take of a PE. */
proctype Take(bit me) {
end:
  do
  :: atomic {
      coming[me] > 0 -> coming[me]--; bell[me] = 1;
#ifndef NOT_WOKEN_BY_MESSAGES
      asleep[me] = 0
#endif
    }
  od
}

/* The end of the program, after all device code has ended. */
proctype Finalize() {
  (finished[0] == WRITERS && finished[1] == OTHERS);
  stop[0] = 1;
#ifndef STOPPED_ASLEEP
  atomic { bell[0] = 1; asleep[0] = 0 };
#endif
  atomic { stop[1] = 1; bell[1] = 1; asleep[1] = 0 }
}

/* Notifies each PE of the failure of the other one. */
proctype News() {
#ifdef DEATH
  atomic { dead[1] = 1; failed = 1; fault[1] = 1 /* ends its remaining processes */ };
  fault[0] = 1
#endif
#ifdef REFUSAL
end_refusal:
  (fault[0] || fault[1]);
#ifndef FAULT_NOT_TOLD
  fault[0] = 1; fault[1] = 1
#endif
#endif
#if !defined(DEATH) && !defined(REFUSAL)
  skip
#endif
}

init {
  byte i;
  atomic {
    run Thread(0); run Thread(1); run Take(0); run Take(1); run Finalize(); run News();
    do
    :: i < WRITERS -> run Writer(0, i % ALL); i++
    :: i >= WRITERS && i < WRITERS + OTHERS -> run Writer(1, ALL - 1 - (i - WRITERS) % ALL); i++
    :: else -> break
    od;
    i = 0
  }
}
