import tensorflow as tf
import tensorflow_datasets as tfds
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_integer("batch_size", 256, "images a step, all replicas")
flags.DEFINE_integer("train_steps", 20000, "steps")
flags.DEFINE_float("lr", 0.1, "learning rate")
flags.DEFINE_string("model_dir", "gs_models/run1", "where checkpoints go")


def dataset():
    data = tfds.load("cifar10", split="train", as_supervised=True)
    return data.shuffle(10000).repeat().batch(FLAGS.batch_size).prefetch(2)


def main(_):
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.applications.ResNet50(weights=None, classes=10, input_shape=(32, 32, 3))
        optimizer = tf.keras.optimizers.SGD(FLAGS.lr, momentum=0.9)
        checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=tf.Variable(0, dtype=tf.int64))
        manager = tf.train.CheckpointManager(checkpoint, FLAGS.model_dir, max_to_keep=3)
    checkpoint.restore(manager.latest_checkpoint)

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(y, model(x, training=True)))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    data = iter(strategy.experimental_distribute_dataset(dataset()))
    for step in range(FLAGS.train_steps):
        strategy.run(train_step, args=next(data))
        if step % 1000 == 0:
            manager.save()


if __name__ == "__main__":
    app.run(main)
