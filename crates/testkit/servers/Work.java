// A large amount of code to compile, which takes little time to run.
public class Work {
    public static double run() {
        return a(1) + b(2) + c(3) + d(4);
    }

    static double a(double x) {
        double[] all = new double[8];
        for (int i = 0; i < 8; i++) {
            all[i] = Math.sqrt(x + i) * (i % 3 == 0 ? x : i % 3 == 1 ? x * x : 1 / x);
            for (int j = 0; j < i; j++) all[j] += all[i] > j ? all[i] * j : all[i] - j;
        }
        return all[0] + all[7];
    }

    static double b(double x) {
        double sum = 0;
        for (int i = 0; i < 6; i++) sum += a(x + i) > i ? a(sum) : a(i) - sum;
        return sum;
    }

    static double c(double x) {
        double sum = 0;
        for (int i = 0; i < 3; i++) sum += b(x + i) < sum ? b(i) * a(sum) : b(x) / (1 + a(x));
        return sum;
    }

    static double d(double x) {
        return c(x) > b(x) ? a(c(x)) + b(x) : c(a(x)) - b(a(x));
    }
}
